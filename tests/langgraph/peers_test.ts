/** What other checkpointers get wrong, by the numbers of the list in langgraph.md, as the saver must do it. */
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { describe, it } from "node:test";
import { JsonPlusSerializer, MemorySaver } from "@langchain/langgraph-checkpoint";
import { ThreadlogSaver } from "../../adapters/langgraph/mod.ts";
import { at, checkpoint, idsOf, LOOP, put, valuesOf, withFile, withSaver } from "./support/graphs.ts";

describe("the saver, where others fail", () => {
  it("1 reads a fork's own values, whatever version they have", async () => {
    await withSaver(async (saver, reopen) => {
      const base = await put(saver, at("t"), "c0", { messages: ["a"] }, { messages: 1 });
      const main = await put(saver, base, "c1", { messages: ["a", "main"] }, { messages: 2 });
      await put(saver, main, "c2", { messages: ["a", "main", "main"] }, { messages: 3 });
      const fork = await put(saver, base, "c3", { messages: ["a", "fork"] }, { messages: 2 });
      await put(saver, fork, "c4", { messages: ["a", "fork", "fork"] }, { messages: 3 });
      // A step on each branch that leaves the channel alone.
      await saver.put(main, checkpoint("c5", {}, { messages: 2, n: 1 }), LOOP, { n: 1 });
      await saver.put(fork, checkpoint("c6", {}, { messages: 2, n: 1 }), LOOP, { n: 1 });
      const again = await reopen();
      assert.deepEqual((await valuesOf(again, at("t", "c2")))?.["messages"], ["a", "main", "main"]);
      assert.deepEqual((await valuesOf(again, at("t", "c4")))?.["messages"], ["a", "fork", "fork"]);
      assert.deepEqual((await valuesOf(again, at("t", "c5")))?.["messages"], ["a", "main"]);
      assert.deepEqual((await valuesOf(again, at("t", "c6")))?.["messages"], ["a", "fork"]);
    });
  });

  it("2 keeps the order of a superstep's writes: by path, task and index", async () => {
    await withSaver(async (saver, reopen) => {
      const base = await put(saver, at("t"), "c0", {});
      // As tasks finish, not as they apply. "~" and an emoji tell code points from UTF-16 units.
      const paths = ["~__pregel_pull, b", "~__pregel_pull, a", "", "\u{1f600}", "\uffff"];
      await Promise.all(
        paths.map((path, i) => saver.putWrites(base, [["log", `${path} 0`], ["log", `${path} 1`]], `${i}`, path)),
      );
      const ordered = ["", "~__pregel_pull, a", "~__pregel_pull, b", "\uffff", "\u{1f600}"];
      const expected = ordered.flatMap((path) => [`${path} 0`, `${path} 1`]);
      await put(saver, base, "c1", {});
      for (const open of [() => saver, reopen]) {
        const one = await open();
        assert.deepEqual((await one.getTuple(base))?.pendingWrites?.map(([, , value]) => value), expected);
        const { log } = await one.getDeltaChannelHistory({ config: at("t", "c1"), channels: ["log"] });
        assert.deepEqual(log?.writes.map(([, , value]) => value), expected);
      }
    });
  });

  it("2 sorts the tenth write behind the second", async () => {
    await withSaver(async (saver) => {
      const base = await put(saver, at("t"), "c0", {});
      await saver.putWrites(base, Array.from({ length: 12 }, (_, i) => ["log", i]), "task");
      const { pendingWrites } = (await saver.getTuple(base))!;
      assert.deepEqual(pendingWrites?.map(([, , value]) => value), Array.from({ length: 12 }, (_, i) => i));
    });
  });

  it("4 stores what changed: 200 turns of 2 KB take a fraction of 200 whole states", { timeout: 60_000 }, async () => {
    await withSaver(async (saver, reopen, path) => {
      const messages: { role: string; content: string }[] = [];
      let config = at("t");
      for (let turn = 0; turn < 200; turn++) {
        messages.push({ role: "user", content: `${turn} `.padEnd(1000, "question ") });
        config = await put(saver, config, `${turn}a`, { messages, n: turn }, { messages: 2 * turn, n: turn });
        messages.push({ role: "assistant", content: `${turn} `.padEnd(1000, "answer ") });
        config = await put(saver, config, `${turn}b`, { messages, n: turn }, { messages: 2 * turn + 1, n: turn });
      }
      await reopen();
      // SqliteSaver: 120.7 MB.
      assert.ok(statSync(path).size < 0.1 * 120_700_000, `${statSync(path).size} bytes`);
    }, { durability: "normal" });
  });

  it("4 keeps bytes as bytes", async () => {
    await withSaver(async (saver, reopen) => {
      const bytes = Uint8Array.of(0, 1, 127, 128, 255);
      const values = { whole: bytes, none: new Uint8Array(0), nested: { list: [bytes] } };
      const config = await put(saver, at("t"), "c0", values);
      await saver.putWrites(config, [["whole", bytes]], "task");
      const again = await reopen();
      assert.deepEqual(await valuesOf(again, at("t")), values);
      assert.deepEqual((await again.getTuple(config))?.pendingWrites, [["task", "whole", bytes]]);
    });
  });

  it("4 keeps the namespaces of a thread apart, their pending sends too", async () => {
    await withSaver(async (saver) => {
      const old = (id: string) => ({ ...checkpoint(id, {}), v: 3 });
      const root = await saver.put(at("t"), old("c0"), LOOP, {});
      const child = await saver.put(at("t", undefined, "child:1"), old("c0"), LOOP, {});
      await saver.putWrites(root, [["__pregel_tasks", "of the root"]], "task");
      await saver.putWrites(child, [["__pregel_tasks", "of the child"]], "task");
      await saver.put(root, old("c1"), LOOP, {});
      await saver.put(child, old("c1"), LOOP, {});
      assert.deepEqual(await valuesOf(saver, at("t")), { __pregel_tasks: ["of the root"] });
      assert.deepEqual(await valuesOf(saver, at("t", undefined, "child:1")), { __pregel_tasks: ["of the child"] });
    });
  });

  it("4 takes writes without a namespace", async () => {
    await withSaver(async (saver) => {
      await put(saver, at("t"), "c0", {});
      await saver.putWrites({ configurable: { thread_id: "t", checkpoint_id: "c0" } }, [["n", 1]], "task");
      assert.deepEqual((await saver.getTuple(at("t")))?.pendingWrites, [["task", "n", 1]]);
    });
  });

  it("4 yields the first row of a list before it has read the last", async () => {
    await withSaver(async (saver) => {
      let config = at("t");
      for (let i = 0; i < 600; i++) config = await put(saver, config, `c${i}`, { n: i }, { n: i });
      const first = saver.list(at("t"));
      assert.equal((await first.next()).value?.checkpoint.id, "c599");
      // Writes go on while the list is open, and it doesn't see them.
      await put(saver, config, "later", { n: 600 }, { n: 600 });
      assert.equal((await first.next()).value?.checkpoint.id, "c598");
      assert.equal((await idsOf(first)).length, 598);
    }, { durability: "normal" });
  });

  it("5 puts in one append, and so are writes", async () => {
    await withSaver(async (saver) => {
      const values = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`channel ${i}`, { n: [i] }]));
      const config = await put(saver, at("t"), "c0", values);
      await saver.putWrites(config, Object.entries(values), "task");
      const times = new Map<number, number>();
      for await (const { time } of saver.log.read()) times.set(time, (times.get(time) ?? 0) + 1);
      assert.equal(await saver.log.head(), 22);
      // Events of one append have one time.
      assert.ok(times.size <= 2);
    });
  });

  it("5 takes NUL in ids, metadata and values", async () => {
    await withSaver(async (saver, reopen) => {
      const metadata = { ...LOOP, "a\0b": "c\0d" } as typeof LOOP;
      await put(saver, at("t\0"), "c\0", { "x\0": "y\0" }, undefined, metadata);
      const tuple = await (await reopen()).getTuple(at("t\0", "c\0"));
      assert.deepEqual(tuple?.checkpoint.channel_values, { "x\0": "y\0" });
      assert.deepEqual(tuple?.metadata, metadata);
    });
  });

  it("5 opens one new file any number of times at once", async () => {
    await withFile(async (path) => {
      const savers = await Promise.all(Array.from({ length: 4 }, () => ThreadlogSaver.open(path)));
      await Promise.all(savers.map((saver, i) => put(saver, at(`t${i}`), "c0", { n: i })));
      await savers[0]!.log.refresh();
      assert.equal((await idsOf(savers[0]!.list({}))).length, 4);
      await Promise.all(savers.map((saver) => saver.close()));
    });
  });

  it("5 gives a checkpoint that is put again its new parent and values, and its old place", async () => {
    await withSaver(async (saver, reopen) => {
      const a = await put(saver, at("t"), "a", { n: ["a"] }, { n: 1 });
      const b = await put(saver, a, "b", { n: ["b"] }, { n: 2 });
      const c = await put(saver, b, "c", { n: ["c"] }, { n: 3 });
      await put(saver, c, "d", { n: ["d"] }, { n: 4 });
      await put(saver, a, "c", { n: ["c again"] }, { n: 3 });
      for (const open of [() => saver, reopen]) {
        const one = await open();
        assert.deepEqual((await one.getTuple(c))?.parentConfig, a);
        assert.deepEqual(await valuesOf(one, c), { n: ["c again"] });
        assert.deepEqual(await valuesOf(one, at("t")), { n: ["d"] });
        assert.deepEqual(await idsOf(one.list(at("t"))), ["d", "c", "b", "a"]);
      }
    });
  });

  it("9 revives a value without an await per node", async () => {
    const value = Array.from({ length: 2_000 }, (_, i) => ({ id: i, tags: ["a", "b"], text: { body: `text ${i}` } }));
    await withSaver(async (saver) => {
      await put(saver, at("t"), "c0", { value });
      await saver.getTuple(at("t"));
      const ours = await timed(async () => assert.deepEqual(Object.keys((await valuesOf(saver, at("t")))!), ["value"]));
      const serde = new JsonPlusSerializer();
      const [type, bytes] = await serde.dumpsTyped(value);
      const theirs = await timed(async () => void await serde.loadsTyped(type, bytes));
      assert.ok(ours < theirs / 2, `${ours} ms, LangGraph's serializer ${theirs} ms`);
      assert.deepEqual(await valuesOf(saver, at("t")), { value });
    });
  });
});

async function timed(run: () => Promise<void>): Promise<number> {
  let best = Infinity;
  for (let i = 0; i < 7; i++) {
    const start = performance.now();
    await run();
    best = Math.min(best, performance.now() - start);
  }
  return best;
}

describe("pending writes", () => {
  it("of a task are kept once, and the first counts", async () => {
    await withSaver(async (saver, _, path) => {
      await using other = await ThreadlogSaver.open(path);
      const base = await put(saver, at("t"), "c0", {});
      await Promise.all([
        saver.putWrites(base, [["n", 1], ["n", 2]], "task"),
        other.putWrites(base, [["n", 3], ["n", 4], ["n", 5]], "task"),
        saver.putWrites(base, [["n", 6]], "task"),
      ]);
      await saver.log.refresh();
      const [ours, theirs] = [await saver.getTuple(base), await other.getTuple(base)];
      assert.deepEqual(ours?.pendingWrites, theirs?.pendingWrites);
      assert.equal(ours?.pendingWrites?.length, 3);
      assert.equal(ours?.pendingWrites?.[2]?.[2], 5);
    });
  });

  it("of a task are kept in the order of the calls, not of their keys", async () => {
    await withSaver(async (saver) => {
      const base = await put(saver, at("t"), "c0", {});
      await saver.putWrites(base, [["n", 1], ["n", 2], ["n", 3], ["n", 4]], "task");
      await saver.putWrites(base, [["n", 5], ["n", 6], ["n", 7]], "task");
      await saver.putWrites(base, [["__error__", "first"]], "task", "b");
      await saver.putWrites(base, [["__error__", "second"]], "task", "a");
      const values = (await saver.getTuple(base))?.pendingWrites?.map(([, , value]) => value);
      assert.deepEqual(values, [1, 2, 3, 4, "second"]);
    });
  });

  it("to special channels are replaced", async () => {
    await withSaver(async (saver) => {
      const base = await put(saver, at("t"), "c0", {});
      for (const value of ["first", "second", "first"]) await saver.putWrites(base, [["__resume__", [value]]], "task");
      await saver.putWrites(base, [["__error__", "failed"], ["n", 1]], "task");
      await saver.putWrites(base, [["__error__", "failed again"], ["n", 2]], "task");
      assert.deepEqual((await saver.getTuple(base))?.pendingWrites, [
        ["task", "__resume__", ["first"]],
        ["task", "__error__", "failed again"],
        ["task", "n", 1],
      ]);
    });
  });

  it("may come before their checkpoint", async () => {
    await withSaver(async (saver) => {
      await saver.putWrites(at("t", "c0"), [["n", 1]], "task");
      assert.equal(await saver.getTuple(at("t")), undefined);
      await put(saver, at("t"), "c0", {});
      assert.deepEqual((await saver.getTuple(at("t")))?.pendingWrites, [["task", "n", 1]]);
    });
  });
});

describe("values", () => {
  it("come back as LangGraph's serializer brings them back, and are the reader's own", async () => {
    const values = {
      map: new Map<unknown, unknown>([["a", 1], [2, { b: [null] }]]),
      set: new Set([1, "two"]),
      expression: /a+/gi,
      error: new Error("failed"),
      date: new Date(0),
      undefined: [undefined, { a: undefined }],
      text: "\ud800 is half a character",
      numbers: [NaN, -0, 1e300],
      deep: JSON.parse("[".repeat(200) + "]".repeat(200)),
      callable: { kept: 1, dropped: () => {} },
    };
    const memory = new MemorySaver();
    await put(memory, at("t"), "c0", values);
    await withSaver(async (saver, reopen) => {
      await put(saver, at("t"), "c0", values);
      const expected = await valuesOf(memory, at("t"));
      assert.deepEqual(await valuesOf(saver, at("t")), expected);
      const mine = (await valuesOf(await reopen(), at("t")))!;
      assert.deepEqual(mine, expected);
      (mine["map"] as Map<unknown, unknown>).clear();
      (mine["undefined"] as unknown[]).length = 0;
      const again = (await (await reopen()).getTuple(at("t")))?.checkpoint.channel_values;
      assert.deepEqual(again, expected);
    });
  });

  it("are taken as they are at the call", async () => {
    await withSaver(async (saver) => {
      const messages = ["before"];
      const putting = put(saver, at("t"), "c0", { messages, own: { messages } });
      messages.push("after");
      const writing = saver.putWrites(await putting, [["messages", messages]], "task");
      messages.push("later still");
      await writing;
      assert.deepEqual(await valuesOf(saver, at("t")), { messages: ["before"], own: { messages: ["before"] } });
      assert.deepEqual((await saver.getTuple(at("t")))?.pendingWrites, [["task", "messages", ["before", "after"]]]);
      assert.equal(Object.isFrozen(messages), false);
    });
  });

  it("go through a serializer of one's own", async () => {
    const calls: string[] = [];
    const plain = new JsonPlusSerializer();
    const serde = {
      async dumpsTyped(value: unknown): Promise<[string, Uint8Array]> {
        const [, bytes] = await plain.dumpsTyped(value);
        calls.push("dump");
        return ["reversed", bytes.slice().reverse()];
      },
      async loadsTyped(type: string, bytes: Uint8Array): Promise<unknown> {
        assert.equal(type, "reversed");
        calls.push("load");
        return await plain.loadsTyped("json", bytes.slice().reverse());
      },
    };
    await withSaver(async (saver, reopen) => {
      const config = await put(saver, at("t"), "c0", { messages: ["hello"] });
      await saver.putWrites(config, [["n", { a: 1 }]], "task");
      const tuple = await (await reopen()).getTuple(at("t"));
      assert.deepEqual(tuple?.checkpoint.channel_values, { messages: ["hello"] });
      assert.deepEqual(tuple?.metadata, LOOP);
      assert.deepEqual(tuple?.pendingWrites, [["task", "n", { a: 1 }]]);
      assert.ok(calls.includes("dump") && calls.includes("load"));
    }, { serde });
  });
});

describe("bad input", () => {
  it("is refused before anything is written", async () => {
    await withSaver(async (saver) => {
      const refused = (promise: Promise<unknown>, message: RegExp) => assert.rejects(promise, message);
      const made = checkpoint("c0", {});
      await refused(saver.put({}, made, LOOP, {}), /missing a required "thread_id"/);
      await refused(
        saver.put({ configurable: { thread_id: 42 } }, made, LOOP, {}),
        /expected a string identifier \(got number\)/,
      );
      await refused(saver.put({ configurable: { thread_id: "" } }, made, LOOP, {}), /empty string/);
      await refused(saver.put(at("t"), { ...made, id: undefined as never }, LOOP, {}), /id is not a string/);
      await refused(saver.put(at("t"), checkpoint("c0", { f: () => {} }), LOOP, { f: 1 }), /can't be stored/);
      await refused(saver.putWrites(at("t"), [["n", 1]], "task"), /missing a required "checkpoint_id"/);
      await refused(saver.putWrites(at("t", "c0"), [["n", 1]], 7 as never), /task_id is not a string/);
      await refused(saver.getTuple({ configurable: { thread_id: null } }), /got null/);
      await refused(idsOf(saver.list({ configurable: { thread_id: ["a"] } })), /got array/);
      await refused(saver.deleteThread(undefined as never), /thread_id/);
      await refused(saver.prune("t", { keepLast: 0 }), /needs a number or a time/);
      assert.equal(await saver.log.head(), 0);
    });
  });
});
