/** Moving in from another checkpointer, and copying, pruning and following threads within the log. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HumanMessage } from "@langchain/core/messages";
import { type CheckpointTuple, MemorySaver } from "@langchain/langgraph-checkpoint";
import { copyCheckpoints, type CopyProgress, ThreadlogSaver } from "../../adapters/langgraph/mod.ts";
import { runToEnd } from "../../cli/graph_agent.ts";
import { at, checkpoint, idsOf, LOOP, put, valuesOf, withSaver } from "./support/graphs.ts";

async function tuplesOf(saver: MemorySaver | ThreadlogSaver): Promise<Map<string, CheckpointTuple>> {
  const tuples = new Map<string, CheckpointTuple>();
  for await (const tuple of saver.list({})) {
    tuples.set(JSON.stringify(Object.entries(tuple.config.configurable!).sort()), tuple);
  }
  return tuples;
}

/** Threads with forks, namespaces, writes of several tasks, and versions that two branches share. */
async function someThreads(): Promise<MemorySaver> {
  const source = new MemorySaver();
  await runToEnd(source);
  const base = await put(source, at("forked"), "1", { x: ["base"], kept: { a: 1 } }, { x: 1, kept: 1 });
  await source.putWrites(base, [["x", "b"], ["x", "c"]], "task b", "~first");
  await source.putWrites(base, [["x", "a"]], "task a", "~second");
  await source.putWrites(base, [["__error__", "failed"], ["x", "d"]], "task d", "~third");
  await put(source, base, "2", { x: ["left"], kept: { a: 1 } }, { x: 2, kept: 1 });
  await put(source, base, "3", { x: ["right"], kept: { a: 1 } }, { x: 2, kept: 1 });
  await put(source, at("forked", "3"), "4", { kept: { a: 1 } }, { x: 2, kept: 1 });
  await source.put(at("old"), { ...checkpoint("1", {}), v: 2 }, LOOP);
  await source.putWrites(at("old", "1"), [["__pregel_tasks", new HumanMessage("sent")]], "task");
  await source.put(at("old", "1"), { ...checkpoint("2", {}), v: 2 }, LOOP);
  return source;
}

describe("copyCheckpoints", () => {
  it("copies all threads, and the same tuples come out of both", async () => {
    const source = await someThreads();
    await withSaver(async (target, reopen) => {
      const seen: CopyProgress[] = [];
      const report = await copyCheckpoints(source, target, { onProgress: (progress) => seen.push(progress) });
      const expected = await tuplesOf(source);
      assert.deepEqual(report, { threads: 4, checkpoints: expected.size, skipped: 0 });
      assert.deepEqual(seen.map(({ copied }) => copied), seen.map((_, i) => i + 1));
      assert.ok(seen.every(({ total }) => total === expected.size));
      const again = await reopen();
      assert.deepEqual(await tuplesOf(again), expected);
      for (const thread of ["forked", "old", "order-7", "letter-7"]) {
        const [ours, theirs] = [await again.getTuple(at(thread)), await source.getTuple(at(thread))];
        assert.equal(ours?.checkpoint.id, theirs?.checkpoint.id);
      }
      assert.deepEqual(await runToEnd(again), await runToEnd(source));
      const head = await again.log.head();
      assert.equal((await copyCheckpoints(source, again)).skipped, expected.size);
      assert.equal(await again.log.head(), head, "a second copy writes nothing");
    });
  });

  it("goes on where it was stopped", async () => {
    const source = await someThreads();
    await withSaver(async (target) => {
      const stop = new AbortController();
      const onProgress = ({ copied }: CopyProgress) => copied === 5 && stop.abort();
      await assert.rejects(copyCheckpoints(source, target, { onProgress, signal: stop.signal }), {
        name: "AbortError",
      });
      assert.equal((await tuplesOf(target)).size, 5);
      assert.equal((await copyCheckpoints(source, target)).skipped, 5);
      assert.deepEqual(await tuplesOf(target), await tuplesOf(source));
    });
  });

  it("copies the threads that it is told to", async () => {
    const source = await someThreads();
    await withSaver(async (target) => {
      assert.deepEqual(await copyCheckpoints(source, target, { threadIds: ["old", "unknown"] }), {
        threads: 1,
        checkpoints: 2,
        skipped: 0,
      });
      assert.deepEqual(await idsOf(target.list({})), ["2", "1"]);
    });
  });

  it("rejects where a copy would not be the same", async () => {
    const source = await someThreads();
    await withSaver(async (target) => {
      target.serde = {
        dumpsTyped: () => Promise.resolve(["json", new TextEncoder().encode("{}")]),
        loadsTyped: () => Promise.resolve({}),
      };
      await assert.rejects(copyCheckpoints(source, target), /The copy of a checkpoint differs/);
    });
  });
});

describe("a thread", () => {
  it("is copied with all its history, which is then its own", async () => {
    await withSaver(async (saver, reopen) => {
      const base = await put(saver, at("a"), "c0", { x: ["base"] }, { x: 1 });
      await saver.putWrites(base, [["x", "pending"]], "task");
      const next = await put(saver, base, "c1", { x: ["next"] }, { x: 2 });
      await put(saver, at("a", undefined, "child:1"), "c0", { y: ["child"] });
      await saver.copyThread("a", "b");
      await put(saver, at("b", "c0"), "c2", { x: ["only in b"] }, { x: 2 });
      await put(saver, next, "c3", { x: ["only in a"] }, { x: 3 });
      const again = await reopen();
      await again.deleteThread("a");
      assert.deepEqual(await idsOf(again.list(at("b"))), ["c2", "c1", "c0"]);
      assert.deepEqual(await valuesOf(again, at("b")), { x: ["only in b"] });
      assert.deepEqual(await valuesOf(again, at("b", "c1")), { x: ["next"] });
      assert.deepEqual(await valuesOf(again, at("b", "c0")), { x: ["base"] });
      assert.deepEqual((await again.getTuple(at("b", "c0")))?.pendingWrites, [["task", "x", "pending"]]);
      assert.deepEqual(await valuesOf(again, at("b", undefined, "child:1")), { y: ["child"] });
      await assert.rejects(again.copyThread("b", "b"), { name: "ConflictError" });
      // All of it or nothing: one namespace of the target is there already.
      await put(again, at("c", undefined, "child:1"), "c0", { y: ["other"] });
      await assert.rejects(again.copyThread("b", "c"), { name: "ConflictError" });
      assert.deepEqual(await idsOf(again.list(at("c", undefined, ""))), []);
    });
  });

  it("is pruned by number and by age, and keeps what a delta channel is made of", async () => {
    let now = 1_000;
    await withSaver(async (saver) => {
      let config = at("t");
      for (let i = 0; i < 8; i++) {
        now += 1_000;
        // A channel whose value is kept every fourth time, and is written to in between.
        const values: Record<string, unknown> = i % 4 === 0 ? { log: [`kept ${i}`] } : {};
        config = await saver.put(config, checkpoint(`c${i}`, values, { log: i }), LOOP, { log: i });
        await saver.putWrites(config, [["log", `written on ${i}`]], "task");
      }
      const history = () => saver.getDeltaChannelHistory({ config: at("t", "c7"), channels: ["log"] });
      const before = await history();
      assert.deepEqual(before["log"]?.seed, ["kept 4"]);
      assert.equal(await saver.prune("t", { keepLast: 1 }), 4);
      assert.deepEqual(await idsOf(saver.list(at("t"))), ["c7", "c6", "c5", "c4"]);
      assert.deepEqual(await history(), before);
      assert.equal(await saver.prune("t", { olderThan: new Date(now + 1) }), 0);
      now += 1_000;
      await saver.put(config, checkpoint("c8", { log: ["kept 8"] }, { log: 8 }), LOOP, { log: 8 });
      assert.equal(await saver.prune("t", { olderThan: new Date(now) }), 4);
      assert.deepEqual(await idsOf(saver.list(at("t"))), ["c8"]);
      assert.deepEqual(await valuesOf(saver, at("t")), { log: ["kept 8"] });
      assert.deepEqual(await saver.getTuple(at("t", "c7")), undefined);
    }, { now: () => now });
  });

  it("loses the checkpoints of a run, and only those", async () => {
    await withSaver(async (saver) => {
      const metadata = (run_id: string) => ({ ...LOOP, run_id });
      const a = await put(saver, at("t"), "a", { x: ["a"] }, { x: 1 }, metadata("one"));
      const b = await put(saver, a, "b", { x: ["b"] }, { x: 2 }, metadata("two"));
      await put(saver, at("u"), "c", {}, {}, metadata("two"));
      await put(saver, b, "d", { x: ["d"] }, { x: 3 });
      assert.equal(await saver.deleteForRuns(["two"]), 2);
      assert.deepEqual((await idsOf(saver.list({}))).sort(), ["a", "d"]);
      assert.deepEqual(await valuesOf(saver, at("t")), { x: ["d"] });
    });
  });

  it("leads to the log: diff, blame, fork and follow", async () => {
    await withSaver(async (saver) => {
      const stop = new AbortController();
      const seen: string[] = [];
      const following = (async () => {
        const prefix = ["checkpoints", "t"];
        for await (
          const { type, key } of saver.log.subscribe({ prefix, signal: stop.signal }) as AsyncIterable<
            { type: string; key?: string }
          >
        ) {
          if (type === "set" && seen.push(key!) === 4) break;
        }
      })();
      const a = await put(saver, at("t"), "a", { x: ["long ".repeat(30)], n: ["n".repeat(99)] }, { x: 1, n: 1 });
      const before = saver.log.snapshot();
      const b = await saver.put(a, checkpoint("b", {}, { x: 1, n: 2 }), LOOP, { n: 2 });
      const c = await put(saver, b, "c", { x: ["long ".repeat(30)], n: [1, 2] }, { x: 1, n: 3 });
      assert.deepEqual(await saver.blame(c, "n"), c);
      assert.deepEqual(await saver.blame(b, "x"), a);
      assert.equal(await saver.blame(c, "absent"), undefined);
      const changed: string[] = [];
      for await (const { key } of saver.log.diff(before, saver.log.snapshot())) changed.push(key);
      assert.deepEqual(changed.sort(), ["b", "c", "n"]);
      const blamed = await saver.channels(c).blame("n", "/value/1");
      assert.ok(blamed!.position < (await saver.thread(c).latest())!.position);
      const fork = await saver.thread(c).fork(["elsewhere"], { at: { position: before.position } });
      assert.equal((await fork.latest())?.key, "a");
      await following;
      assert.deepEqual(seen.slice(0, 3), ["x", "n", "a"]);
      stop.abort();
    });
  });
});
