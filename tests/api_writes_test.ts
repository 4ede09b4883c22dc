/**
 * The API of design.md: its example as it stands, types, writes, batches, expectations, ids.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { inspect } from "node:util";
import {
  type AppEvent,
  ConflictError,
  type Event,
  type Head,
  type Immutable,
  isBuiltIn,
  openLog,
  type PatchEvent,
  type SetEvent,
} from "../mod.ts";
import { all, inFolder, onEach, refused } from "./support/scratch.ts";

/** Compiles only if two types are the same. */
function same<A>() {
  return <B>(_: [A] extends [B] ? ([B] extends [A] ? B : never) : never) => {};
}

interface State {
  plan: { step: number; todo: string[]; done?: boolean };
  count: number;
}

describe("the API as it is written", () => {
  it(
    "runs line by line",
    inFolder(async (folder) => {
      await using log = await openLog(join(folder, "agent.db"));
      const thread = log.thread("support-42");

      await thread.put("plan", { step: 1, todo: ["look up the order"] });
      const before = log.snapshot();
      await thread.update("plan", (draft) => {
        draft.step = 2;
      });
      await thread.append("tool.called", { name: "refund", args: { order: 7 } });

      const changes = [];
      for await (const change of log.diff(before, log.snapshot())) changes.push(change);
      assert.deepEqual(changes, [{
        thread: "support-42",
        key: "plan",
        kind: "changed",
        before: { step: 1, todo: ["look up the order"] },
        after: { step: 2, todo: ["look up the order"] },
        operations: [{ op: "replace", path: "/step", value: 2 }],
      }]);
      const then = await thread.at(1).get("plan");
      assert.deepEqual(then, { step: 1, todo: ["look up the order"] });
      const types = [];
      for await (const event of thread.replay({ to: 2 })) types.push(event.type);
      assert.deepEqual(types, ["set", "patch"]);
      const whatIf = await thread.fork("support-42/b", { at: 1 });
      assert.deepEqual(await whatIf.get("plan"), { step: 1, todo: ["look up the order"] });
      assert.deepEqual([whatIf.id, await whatIf.head()], ["support-42/b", { version: 2, position: 4 }]);
    }),
  );

  it("resolves writes to their events, typed", async () => {
    await using log = await openLog(":memory:", { now: () => 5 });
    const thread = log.thread<State>(["users", "42"]);
    const set = await thread.put("plan", { step: 1, todo: [] }, { meta: { by: "me" }, id: "one" });
    assert.deepEqual({ ...set }, {
      position: 1,
      thread: ["users", "42"],
      version: 1,
      type: "set",
      key: "plan",
      value: { step: 1, todo: [] },
      meta: { by: "me" },
      time: 5,
      id: "one",
    });
    const patch = await thread.update("plan", (draft) => void draft.todo.push("x"));
    assert.deepEqual({ ...patch }, {
      position: 2,
      thread: ["users", "42"],
      version: 2,
      type: "patch",
      key: "plan",
      value: [{ op: "add", path: "/todo/0", value: "x" }],
      meta: undefined,
      time: 5,
      id: "@2",
    });
    const app = await thread.append("tool.called", { name: "refund" });
    assert.deepEqual([app.type, app.value.name, "key" in app], ["tool.called", "refund", false]);
    const deleted = await thread.delete("count");
    assert.deepEqual([deleted.type, deleted.key, deleted.value], ["delete", "count", undefined]);
    same<typeof set>()<SetEvent>(set);
    same<typeof patch>()<PatchEvent | SetEvent>(patch);
    same<typeof app>()<AppEvent<"tool.called", { readonly name: string }>>(app);
    const plan = await thread.get("plan");
    same<typeof plan>()<Immutable<State["plan"]> | undefined>(plan);
    // @ts-expect-error: what is read can't be changed
    assert.throws(() => plan!.todo.push("y"), TypeError);
    // @ts-expect-error: no such key
    assert.equal(await thread.get("plam"), undefined);
    // @ts-expect-error: not of this type
    await thread.put("count", "many");
    const head: Head = await thread.head();
    const position: number = await log.head();
    assert.deepEqual([head, position], [{ version: 5, position: 5 }, 5]);
    for await (const event of log.read()) {
      if (isBuiltIn(event) && event.type === "set") assert.equal(typeof event.key, "string");
    }
    const free = log.thread("free");
    await free.put("anything", { at: ["all"] });
    assert.equal((await free.get("anything")).at[0], "all");
  });

  onEach("updates with recipes: in place, returning, on other types, with an initial value", async (log) => {
    const thread = log.thread("a");
    await refused("not_found", () => thread.update("k", () => 1));
    const first = await thread.update("k", (draft) => void draft.list.push(1), { initial: { list: [] as number[] } });
    assert.deepEqual([first.type, first.value], ["set", { list: [1] }]);
    await thread.update("k", (draft) => void draft.list.push(2), { initial: { list: [] as number[] } });
    assert.deepEqual(await thread.get("k"), { list: [1, 2] });
    await thread.put("n", 1);
    await thread.update("n", (n) => n + 1);
    assert.equal(await thread.get("n"), 2);
    await thread.update("n", () => null);
    assert.equal(await thread.get("n"), null);
    await thread.update("n", () => new Map([["a", { x: 1 }]]));
    await thread.update("n", (map) => void (map.get("a").x = 2));
    assert.deepEqual(await thread.get("n"), new Map([["a", { x: 2 }]]));
    await thread.update("n", () => undefined);
    assert.deepEqual(await thread.get("n"), new Map([["a", { x: 2 }]]));
    await thread.put("when", new Date(1));
    await thread.update("when", (date) => void date.setTime(2));
    assert.deepEqual(await thread.get("when"), new Date(2));
    await refused("invalid_argument", () => thread.update("k", async () => await Promise.resolve()));
    await assert.rejects(
      thread.update("k", () => {
        throw new RangeError("mine");
      }),
      new RangeError("mine"),
    );
    assert.deepEqual(await thread.get("k"), { list: [1, 2] });
  });

  onEach("a hundred updates at once each see the one before", async (log) => {
    const thread = log.thread("a");
    await thread.put("n", { count: 0 });
    await Promise.all(Array.from({ length: 100 }, () => thread.update("n", (draft) => void draft.count++)));
    assert.deepEqual(await thread.get("n"), { count: 100 });
    assert.deepEqual(await thread.at(51).get("n"), { count: 50 });
  });
});

describe("batches", () => {
  onEach("are one step across threads, in order", async (log) => {
    await log.thread("a").put("n", 1);
    const events = await log.batch((batch) => {
      const a = batch.thread<{ n: number; list: number[] }>("a");
      a.update("n", (n) => n + 1);
      a.put("list", [1]);
      a.update("list", (draft) => void draft.push(2));
      batch.thread(["b"]).append("said", { hello: 1 }, { id: "x", meta: 1 });
      a.delete("n");
      a.update("n", (n) => n + 10, { initial: 5 });
    });
    assert.deepEqual(events.map(({ position, thread, version, type }) => [position, thread, version, type]), [
      [2, "a", 2, "patch"],
      [3, "a", 3, "set"],
      [4, "a", 4, "patch"],
      [5, "b", 1, "said"],
      [6, "a", 5, "delete"],
      [7, "a", 6, "set"],
    ]);
    assert.equal(new Set(events.map(({ time }) => time)).size, 1);
    assert.deepEqual([await log.thread("a").get("n"), await log.thread("a").get("list")], [15, [1, 2]]);
    assert.deepEqual(await log.batch(() => {}), []);
  });

  onEach("leave nothing when one of their events fails", async (log) => {
    await log.thread("a").put("n", 1);
    const failing: (() => Promise<unknown>)[] = [
      () => log.batch((b) => (b.thread("a").put("n", 2), b.thread("b").put("f", () => {}))),
      () => log.batch((b) => (b.thread("b").put("n", 2), b.thread("a").put("n", 2, { expect: 7 }))),
      () => log.batch((b) => (b.thread("b").put("n", 2), b.thread("a").put("n", 2, { expect: "new" }))),
      () => log.batch((b) => (b.thread("b").put("n", 2), b.thread("a").update("m", () => 1))),
      () => log.batch((b) => (b.thread("b").put("n", 2), b.thread("a").put("x", 1, { id: "@5" }))),
      () => log.batch((b) => (b.thread("b").put("n", 2, { id: "i" }), b.thread("b").put("m", 2, { id: "i" }))),
      () =>
        log.batch((b) => {
          b.thread("b").put("n", 2);
          throw new ThreadlogLike();
        }),
      () =>
        log.batch(
          (async (b: { thread(id: string): { put(k: string, v: number): void } }) => {
            b.thread("b").put("n", 2);
            await Promise.resolve();
          }) as never,
        ),
    ];
    for (const fail of failing) await assert.rejects(fail());
    assert.equal(await log.head(), 1);
    assert.deepEqual((await all(log.threads())).map(({ thread }) => thread), ["a"]);
    await log.thread("b").put("n", 3, { expect: "new" });
  });

  onEach("can't be written to after they ended", async (log) => {
    let kept: { put(key: string, value: number): void } | undefined;
    await log.batch((batch) => {
      kept = batch.thread("a");
      kept.put("n", 1);
    });
    assert.throws(() => kept!.put("n", 2), { code: "invalid_argument" });
    assert.equal(await log.head(), 1);
  });
});

class ThreadlogLike extends Error {}

describe("expectations", () => {
  onEach('take a version, "new", or a head', async (log) => {
    const thread = log.thread("a");
    await thread.put("k", 1, { expect: "new" });
    const head = await thread.head();
    await thread.put("k", 2, { expect: head });
    await thread.put("k", 3, { expect: 2 });
    await thread.update("k", (n) => n + 1, { expect: 3 });
    await thread.delete("k", { expect: 4 });
    await thread.restore(3, { expect: 5 });
    for (const [expect, expected] of [["new", 0], [head, 1], [5, 5], [7, 7]] as const) {
      for (
        const write of [
          () => thread.put("k", 1, { expect }),
          () => thread.append("said", 1, { expect }),
          () => thread.update("k", () => 1, { expect }),
          () => thread.delete("k", { expect }),
          () => thread.restore(1, { expect }),
        ]
      ) {
        const error = await refused("conflict", write);
        assert.ok(error instanceof ConflictError);
        assert.deepEqual([error.expected, error.actual], [expected, 6]);
      }
    }
    assert.equal(await log.head(), 6);
    await refused("conflict", () => log.thread("b").put("k", 1, { expect: 1 }));
    await log.thread("b").put("k", 1, { expect: 0 });
  });
});

describe("ids", () => {
  onEach("make batches safe to repeat, as a whole", async (log) => {
    const write = (amount: number) =>
      log.batch((batch) => {
        batch.thread("a").append("paid", { amount }, { id: "pay" });
        batch.thread("b").put("last", amount);
        batch.thread("b").put("count", 1, { id: "count" });
      });
    const first = await write(7);
    await log.thread("b").put("last", 9);
    assert.deepEqual(await write(7), first);
    await refused("id_conflict", () => write(8));
    await refused("id_conflict", () => log.thread("a").append("paid", { amount: 7, more: 1 }, { id: "pay" }));
    await refused("id_conflict", () =>
      log.batch((batch) => {
        batch.thread("a").append("paid", { amount: 7 }, { id: "pay" });
        batch.thread("b").put("other", 7);
      }));
    assert.equal(await log.head(), 4);
  });

  onEach("make updates safe to repeat, whatever came after", async (log) => {
    const thread = log.thread("a");
    await thread.put("n", 1);
    const add = (expect?: number) => thread.update("n", (n) => n + 1, { id: "add", ...(expect && { expect }) });
    const first = await add();
    assert.deepEqual(await add(), first);
    assert.deepEqual(await add(1), first);
    assert.deepEqual(await add(7), first);
    assert.equal(await thread.get("n"), 2);
    await thread.delete("n");
    assert.deepEqual(await add(), first);
    const begin = () => thread.update("m", (draft) => void draft.push(1), { id: "begin", initial: [] as number[] });
    const begun = await begin();
    assert.deepEqual([begun.type, begun.value], ["set", [1]]);
    assert.deepEqual(await begin(), begun);
    await thread.put("m", [7]);
    assert.deepEqual(await begin(), begun);
    assert.deepEqual(await thread.get("m"), [7]);
    await refused("id_conflict", () => thread.update("m", () => 1, { id: "add" }));
    await refused("id_conflict", () => thread.update("n", () => 1, { id: "add", meta: 1, initial: 1 }));
    const [batched] = await log.batch((b) => b.thread("a").update("m", () => [8], { id: "in batch" }));
    await thread.delete("m");
    assert.deepEqual(await log.batch((b) => b.thread("a").update("m", () => [8], { id: "in batch" })), [batched]);
  });

  onEach("make forks, restores and deletions safe to repeat", async (log) => {
    const thread = log.thread("a");
    await thread.put("n", 1);
    const fork = () => thread.fork("f", { id: "fork" });
    await fork();
    const restored = await thread.restore(1, { id: "back" });
    const deleted = await thread.delete("n", { id: "gone" });
    const { position } = await log.thread("f").head();
    assert.deepEqual(await (await fork()).head(), { version: 2, position });
    assert.deepEqual(await thread.restore(1, { id: "back" }), restored);
    assert.deepEqual(await thread.delete("n", { id: "gone" }), deleted);
    await refused("id_conflict", () => thread.restore(2, { id: "back" }));
    await refused("conflict", () => thread.fork("f"));
    await refused("conflict", () => thread.fork("a"));
    assert.equal(await log.head(), 4);
  });

  onEach("show in events and entries; without one the position stands for it", async (log) => {
    const event: Event = await log.thread("a").put("k", 1);
    assert.equal(event.id, "@1");
    await log.thread("a").put("k", 2, { id: "two" });
    assert.equal((await log.thread("a").entry("k"))!.id, "two");
    assert.deepEqual((await all(log.read())).map(({ id }) => id), ["@1", "two"]);
    await refused("invalid_id", () => log.thread("a").put("k", 1, { id: "@1" }));
    await refused("invalid_argument", () => log.thread("a").put("k", 1, { id: "" }));
  });
});

describe("an event that was appended", () => {
  onEach("is the same however long its value is", async (log) => {
    for (const length of [3, 5000]) {
      const value = { text: "x".repeat(length), list: [1, { two: 2 }] };
      const event = await log.thread(`t${length}`).put("k", value, { id: "i", meta: "m" });
      const expected = {
        position: event.position,
        thread: `t${length}`,
        version: 1,
        time: event.time,
        id: "i",
        meta: "m",
        type: "set",
        key: "k",
        value,
      };
      assert.deepEqual({ ...event }, expected);
      assert.deepEqual(Object.keys(event), Object.keys(expected));
      assert.deepEqual(structuredClone(event), expected);
      assert.equal(JSON.stringify(event), JSON.stringify(expected));
      assert.ok(inspect(event, { depth: 9 }).includes("two: 2"));
      assert.ok(Object.isFrozen(event) && Object.isFrozen(event.value) && event.value === event.value);
      value.list.push(3);
      assert.equal((event.value as typeof value).list.length, 2);
    }
  });
});
