/**
 * The past: diffs and their application, replay, forks, restores, blame, bisect.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apply, applyChanges, diff, type Event, type Log, openLog, type Thread, type ThreadView } from "../mod.ts";
import { all, onEach, refused, seeded } from "./support/scratch.ts";

async function stateOf(view: ThreadView): Promise<Map<string, unknown>> {
  return new Map((await all(view.entries())).map(({ key, value }) => [key, value]));
}

/** A thread with a little of everything, and the state after each of its versions. */
async function eventful(log: Log, seed: number): Promise<[Thread, Map<string, unknown>[]]> {
  const random = seeded(seed);
  const thread = log.thread("a");
  const states = [new Map<string, unknown>()];
  for (let i = 1; i <= 60; i++) {
    const key = `k${Math.floor(random() * 5)}`;
    const kind = random();
    if (kind < 0.4) await thread.put(key, { i, list: [i, { deep: i }], map: new Map([[i, i]]) });
    else if (kind < 0.7) {
      await thread.update(key, (draft) => {
        draft.i = i;
        draft.list = [...draft.list ?? [], i].slice(-4);
      }, { initial: {} });
    } else if (kind < 0.8) await thread.delete(key);
    else if (kind < 0.9) await thread.append("said", i);
    else await thread.restore(Math.floor(random() * i));
    states.push(await stateOf(thread));
  }
  return [thread, states];
}

describe("diff", () => {
  onEach("gives the net changes between any two points, which make the one state of the other", async (log) => {
    const [thread, states] = await eventful(log, 7);
    const random = seeded(8);
    for (let round = 0; round < 60; round++) {
      const from = Math.floor(random() * 61);
      const to = Math.floor(random() * 61);
      const changes = await all(thread.diff(from, to));
      assert.deepEqual(applyChanges(states[from]!, changes), states[to], `${from} to ${to}`);
      assert.deepEqual(changes.map(({ key }) => key), changes.map(({ key }) => key).toSorted());
      for (const { key, kind, before, after, operations } of changes) {
        assert.deepEqual([before, after], [states[from]!.get(key), states[to]!.get(key)]);
        assert.equal(kind, !states[from]!.has(key) ? "added" : states[to]!.has(key) ? "changed" : "removed");
        if (kind === "changed") assert.deepEqual(apply(before, operations), after);
      }
      assert.deepEqual(await all(log.diff(from, to)), changes, "the log holds this thread alone");
      assert.deepEqual(await stateOf(thread.at(to)), states[to]);
    }
    assert.deepEqual(await all(thread.diff(5, 5)), []);
  });

  onEach("of the log covers all threads, by prefix if asked", async (log) => {
    const before = log.snapshot();
    await log.thread(["t", "b"]).put("k", 1);
    await log.thread(["t", "a"]).put("k", 1);
    await log.thread("u").put("k", undefined);
    const shown = (await all(log.diff(before, log.snapshot()))).map(({ thread, key, kind }) => [thread, key, kind]);
    assert.deepEqual(shown, [[["t", "a"], "k", "added"], [["t", "b"], "k", "added"], ["u", "k", "added"]]);
    assert.equal((await all(log.diff(0, 3, { prefix: "t" }))).length, 2);
    const back = await all(log.diff(log.snapshot(), before));
    assert.deepEqual(back.map(({ kind }) => kind), ["removed", "removed", "removed"]);
    await log.thread("u").fork("f");
    assert.deepEqual((await all(log.diff(3, 4))).map(({ thread, kind }) => [thread, kind]), [["f", "added"]]);
    const parts = diff({ a: [1, 2] }, { a: [1, 3], b: undefined });
    assert.deepEqual(apply({ a: [1, 2] }, parts), { a: [1, 3], b: undefined });
  });
});

describe("replay and fold", () => {
  onEach("give a thread's events between any two points, both ways, and the same twice", async (log) => {
    const [thread] = await eventful(log, 9);
    const events = await all(thread.replay());
    assert.deepEqual(events.map(({ version }) => version), Array.from({ length: 60 }, (_, i) => i + 1));
    assert.deepEqual(await all(thread.replay()), events);
    assert.deepEqual(await all(thread.replay({ reverse: true })), events.toReversed());
    assert.deepEqual(await all(thread.replay({ from: 10, to: 20 })), events.slice(9, 20));
    assert.deepEqual(
      await all(thread.replay({ from: events[9]!, to: { position: 20 }, limit: 3 })),
      events.slice(9, 12),
    );
    assert.deepEqual(
      await all(thread.replay({ to: log.snapshot(), limit: 2, reverse: true })),
      events.slice(-2).toReversed(),
    );
    assert.deepEqual(await all(thread.replay({ from: 21, to: 20 })), []);
    assert.deepEqual(await all(thread.replay({ to: 0 })), []);
    await refused("not_found", () => all(thread.replay({ to: 61 })));
    assert.equal(await thread.fold(0, (sum, event) => sum + event.version, { to: 4 }), 10);
  });
});

describe("fork and restore", () => {
  onEach("share history, then go their own ways; a fork of a fork too", async (log) => {
    const [root, states] = await eventful(log, 11);
    const child = await root.fork(["fork", "1"], { at: 30, meta: { why: "try" } });
    assert.deepEqual(await stateOf(child), states[30]);
    const [made] = await all(child.replay({ from: 31 }));
    assert.deepEqual([made!.type, made!.value, made!.meta], ["fork", { parent: "a", version: 30 }, { why: "try" }]);
    await child.put("own", 1);
    const grandchild = await child.fork("g", { at: { version: 20 } });
    assert.deepEqual(await stateOf(grandchild), states[20]);
    const great = await (await child.fork("h")).fork("i");
    assert.deepEqual(await stateOf(great), new Map([...states[30]!]).set("own", 1));
    for (let version = 1; version <= 30; version++) {
      assert.deepEqual(await stateOf(great.at(version)), states[version]);
    }
    assert.deepEqual(
      await all(child.diff(10, 30)),
      (await all(root.diff(10, 30))).map((change) => ({ ...change, thread: ["fork", "1"] })),
    );
    await root.put("own", "root");
    assert.equal(await child.get("own"), 1);
    assert.equal(await grandchild.get("own"), undefined);
    const inherited = await all(great.replay({ to: 30 }));
    assert.deepEqual(inherited, await all(root.replay({ to: 30 })));
    assert.equal((await log.verify()).ok, true);
    for (const at of [0, new Date(0)]) {
      assert.deepEqual(await stateOf(await root.fork(`empty ${at}`, { at })), new Map());
    }
    await refused("not_found", () => root.fork("x", { at: 1000 }));
    await refused("not_found", () => log.thread("nobody").fork("x", { at: 1 }));
  });

  onEach("rewrite nothing: a restore is one more event", async (log) => {
    const [thread, states] = await eventful(log, 12);
    const before = await all(thread.replay());
    for (const version of [0, 13, 60, 61, 30]) {
      const restored = await thread.restore(version, { meta: { to: version } });
      assert.deepEqual([restored.type, restored.value], ["restore", { version }]);
      states.push(states[version]!);
      assert.deepEqual(await stateOf(thread), states[version]);
    }
    assert.deepEqual(await all(thread.replay({ to: 60 })), before);
    await thread.restore({ position: 5 });
    assert.deepEqual(await stateOf(thread), states[5]);
    await thread.put("k0", "after");
    assert.deepEqual(await stateOf(thread), new Map([...states[5]!]).set("k0", "after"));
    assert.equal((await log.verify()).ok, true);
  });
});

describe("blame", () => {
  onEach("names the event that last changed a value, or a part of it", async (log) => {
    const thread = log.thread("a");
    const version = async (key: string, pointer?: string) => (await thread.blame(key, pointer))?.version;
    assert.equal(await version("k"), undefined);
    await thread.put("k", { name: "x", list: [{ n: 1 }, { n: 2 }], "a/b": 1 }); // 1
    await thread.put("other", 1); // 2
    await thread.update("k", (draft) => void (draft.list[1].n = 3)); // 3
    await thread.update("k", (draft) => void (draft.name = "y")); // 4
    await thread.put("k", { name: "y", list: [{ n: 1 }, { n: 3 }], "a/b": 1, more: undefined }); // 5
    assert.deepEqual([await version("k"), await version("other")], [5, 2]);
    assert.deepEqual([await version("k", "/name"), await version("k", "/list/1/n"), await version("k", "/list/0")], [
      4,
      3,
      1,
    ]);
    assert.deepEqual([await version("k", "/a~1b"), await version("k", "/more")], [1, 5]);
    assert.deepEqual([await version("k", "/none"), await version("k", "/list/7"), await version("k", "/list/-")], [
      undefined,
      undefined,
      undefined,
    ]);
    await thread.update("k", (draft) => void delete draft.name); // 6
    assert.equal(await version("k", "/name"), 6);
    await thread.delete("k"); // 7
    assert.deepEqual([await version("k"), await version("k", "/name")], [7, 7]);
    await thread.restore(3); // 8
    assert.deepEqual([await version("k"), await version("k", "/name")], [3, 1]);
    await thread.put("late", 1); // 9
    await thread.restore(8); // 10
    assert.equal(await version("late"), 10);
    assert.equal((await thread.blame("late"))!.type, "restore");
    const fork = await thread.fork("f");
    assert.equal((await fork.blame("k"))!.version, 3);
    for (const pointer of ["name", 7, null, "/a~2"]) {
      await refused("invalid_argument", () => thread.blame("k", pointer as string));
    }
  });
});

describe("bisect", () => {
  it("finds the first version in O(log n) reads", async () => {
    await using log = await openLog(":memory:");
    const thread = log.thread<{ n: number }>("a");
    await Promise.all(Array.from({ length: 1000 }, (_, i) => thread.put("n", i + 1)));
    const fork = await thread.fork("f");
    for (const wanted of [1, 2, 500, 999, 1000]) {
      for (const one of [thread, fork]) {
        let reads = 0;
        const found = await one.bisect(async (view) => (reads++, (await view.get("n"))! >= wanted));
        assert.equal(found, wanted);
        assert.ok(reads <= 11, `${reads} reads`);
      }
    }
    assert.equal(await thread.bisect(() => false), undefined);
    assert.equal(await thread.bisect((_, version) => version >= 7), 7);
    assert.equal(await thread.bisect((_, version) => version >= 7, { from: 100, to: 200 }), 100);
    assert.equal(await thread.bisect(() => true, { from: 9, to: 8 }), undefined);
    assert.equal(await log.thread("nobody").bisect(() => true), undefined);
    await refused("invalid_argument", () => thread.bisect((() => 1) as never));
    await refused("invalid_argument", () => thread.bisect(undefined as never));
    await assert.rejects(thread.bisect(() => Promise.reject(new RangeError("mine"))), new RangeError("mine"));
  });
});

describe("every kind of event", () => {
  onEach("shows the same in read, replay and what the write resolved to", async (log) => {
    const thread = log.thread("a");
    const written: (Event | undefined)[] = [
      await thread.put("k", [1]),
      await thread.update("k", (draft) => void draft.push(2)),
      await thread.append("said", { a: 1 }, { meta: [1], id: "x" }),
      await thread.delete("k"),
      await thread.restore(2),
    ];
    assert.deepEqual(await all(log.read()), written);
    assert.deepEqual(await all(thread.replay()), written);
    assert.ok(written.every((event) => Object.isFrozen(event)));
    const tombstone = await thread.erase();
    assert.deepEqual(await all(log.read()), [tombstone]);
  });
});
