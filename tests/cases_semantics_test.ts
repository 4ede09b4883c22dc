/**
 * Cases A14-A17, A24, A25, A27 and A28: what the meaning of a log suffered elsewhere. Each runs in memory and on a file.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ConflictError, defineProjection, type Event, openLog } from "../mod.ts";
import { all, inFolder, onEach, rawConnection, rawSql, refused, seeded, sleep } from "./support/scratch.ts";

describe("semantics", () => {
  onEach("A14 a thread of 5,000 events is read in the order of its versions", async (log) => {
    const thread = log.thread("a");
    const others = seeded(14);
    const writes: Promise<unknown>[] = [];
    for (let i = 0; i < 5000; i++) {
      writes.push(thread.append("said", { i }, { id: `id-${Math.floor(others() * 1e9)}-${i}` }));
      if (i % 7 === 0) writes.push(log.thread(`b${i % 5}`).put("k", i));
    }
    await Promise.all(writes);
    const wanted = Array.from({ length: 5000 }, (_, i) => i + 1);
    assert.deepEqual((await all(thread.replay())).map(({ version }) => version), wanted);
    assert.deepEqual((await all(thread.replay({ reverse: true }))).map(({ version }) => version), wanted.toReversed());
    const positions = (await all(log.read({ prefix: "a" }))).map(({ position }) => position);
    assert.equal(positions.length, 5000);
    assert.ok(positions.every((position, i) => i === 0 || position > positions[i - 1]!));
  });

  it(
    "A14 order is asked for, not a gift of an index",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      {
        await using log = await openLog(path, { durability: "normal" });
        await Promise.all(Array.from({ length: 600 }, (_, i) => log.thread(`t${i % 3}`).put(`k${i % 50}`, i)));
      }
      // Another index, which a planner may prefer, in the opposite order.
      rawSql(path, "CREATE INDEX other ON events (thread, version DESC, position DESC)", "ANALYZE");
      await using log = await openLog(path);
      const versions = (await all(log.thread("t1").replay())).map(({ version }) => version);
      assert.deepEqual(versions, Array.from({ length: 200 }, (_, i) => i + 1));
      const positions = (await all(log.read())).map(({ position }) => position);
      assert.deepEqual(positions, Array.from({ length: 600 }, (_, i) => i + 1));
    }),
  );

  onEach("A15 repeating an append under its id gives the first event, whatever is expected", async (log) => {
    const thread = log.thread("a");
    const first = await thread.append("paid", { amount: 7 }, { id: "X", meta: { by: "me" } });
    await thread.append("other", null);
    const again = () => thread.append("paid", { amount: 7 }, { id: "X", meta: { by: "me" } });
    assert.deepEqual(await again(), first);
    const { version } = await thread.head();
    for (const expect of [version, 0, 1, "new", { version }] as const) {
      assert.deepEqual(await thread.append("paid", { amount: 7 }, { id: "X", meta: { by: "me" }, expect }), first);
    }
    assert.deepEqual(await Promise.all([again(), again(), again()]), [first, first, first]);
    assert.equal(await log.head(), 2);
    for (
      const other of [
        () => thread.append("paid", { amount: 8 }, { id: "X", meta: { by: "me" } }),
        () => thread.append("paid", { amount: 7 }, { id: "X" }),
        () => thread.append("refunded", { amount: 7 }, { id: "X", meta: { by: "me" } }),
        () => thread.put("paid", { amount: 7 }, { id: "X", meta: { by: "me" } }),
        () => thread.delete("paid", { id: "X" }),
      ]
    ) {
      const error = await refused("id_conflict", other);
      assert.match(error.place!, /thread "a", position 1/);
    }
    assert.equal(await log.head(), 2);
    // The scope is the thread.
    assert.equal((await log.thread("b").append("paid", { amount: 8 }, { id: "X" })).position, 3);
  });

  onEach("A15 two appends under one id in one turn are one event", async (log) => {
    const events = await Promise.all(
      Array.from({ length: 20 }, () => log.thread("a").append("paid", { amount: 7 }, { id: "X" })),
    );
    assert.equal(new Set(events.map(({ position }) => position)).size, 1);
    assert.equal(await log.head(), 1);
  });

  it(
    "A16 a saved projection of another version, or of unreadable bytes, is rebuilt from the log",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      let folded = 0;
      const sum = (version: number, factor: number) =>
        defineProjection({
          name: "sum",
          version,
          initial: () => ({ total: 0, count: 0 }),
          evolve: (state, event) => {
            folded++;
            return { total: state.total + factor * (event.value as number), count: state.count + 1 };
          },
        });
      const open = async (version: number, factor: number) => {
        folded = 0;
        await using log = await openLog(path);
        const projection = await log.project(sum(version, factor));
        assert.equal(await projection.position(), await log.head());
        return { ...await projection.state() };
      };
      {
        await using log = await openLog(path);
        await log.project(sum(1, 1));
        for (let i = 1; i <= 100; i++) await log.thread("a").append("added", i);
      }
      assert.deepEqual([await open(1, 1), folded], [{ total: 5050, count: 100 }, 0]);
      assert.deepEqual([await open(2, 10), folded], [{ total: 50500, count: 100 }, 100]);
      assert.deepEqual([await open(2, 10), folded], [{ total: 50500, count: 100 }, 0]);
      assert.deepEqual([await open(1, 1), folded], [{ total: 5050, count: 100 }, 100]);
      for (const bytes of ["X'c1'", "X''", "X'82a5746f74616c'", "'text'", "randomblob(200)", "zeroblob(3)"]) {
        rawSql(path, `UPDATE projections SET state = ${bytes}`);
        assert.deepEqual([await open(1, 1), folded], [{ total: 5050, count: 100 }, 100], bytes);
      }
      rawSql(path, "UPDATE projections SET position = 1000");
      assert.deepEqual([await open(1, 1), folded], [{ total: 5050, count: 100 }, 100]);
    }),
  );

  it(
    "A17 replay is in log order however long each step takes, cold and warm",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const random = seeded(17);
      {
        await using log = await openLog(path, { durability: "normal" });
        const names = ["a", "b", "c"];
        await Promise.all(
          Array.from({ length: 500 }, (_, i) => log.thread(names[i % 3]!).append(i % 2 ? "said" : "did", { i })),
        );
      }
      await using log = await openLog(path, { durability: "normal" });
      const trace = async () => {
        const steps: string[] = [];
        for await (const event of log.read()) {
          if (random() < 0.1) await sleep(random() * 2);
          else if (random() < 0.5) await Promise.resolve();
          steps.push(JSON.stringify(event));
        }
        return steps;
      };
      const cold = await trace();
      const [warm, beside] = await Promise.all([trace(), trace()]);
      assert.equal(cold.length, 500);
      assert.deepEqual(warm, cold);
      assert.deepEqual(beside, cold);
      const subscribed: string[] = [];
      for await (const event of log.subscribe()) {
        if (random() < 0.1) await sleep(random() * 2);
        subscribed.push(JSON.stringify(event));
        if (subscribed.length === 500) break;
      }
      assert.deepEqual(subscribed, cold);
    }),
  );

  onEach("A24 of two writers that expect the same version one succeeds, the other is told", async (log) => {
    const thread = log.thread("a");
    for (let i = 0; i < 5; i++) await thread.append("said", { i });
    const { version } = await thread.head();
    const results = await Promise.allSettled([
      thread.put("k", "first", { expect: version }),
      thread.put("k", "second", { expect: version }),
    ]);
    assert.deepEqual(results.map(({ status }) => status), ["fulfilled", "rejected"]);
    const error = (results[1] as PromiseRejectedResult).reason as ConflictError;
    assert.ok(error instanceof ConflictError);
    assert.deepEqual([error.code, error.expected, error.actual], ["conflict", 5, 6]);
    assert.match(error.place!, /"a"/);
    assert.equal(await thread.get("k"), "first");
    assert.equal(await log.head(), 6);
  });

  it(
    "A24 the same for two logs on one file",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await using one = await openLog(path);
      await using two = await openLog(path);
      for (let i = 0; i < 5; i++) await one.thread("a").append("said", { i });
      await two.refresh();
      assert.equal((await two.thread("a").head()).version, 5);
      await one.thread("a").put("k", 1, { expect: 5 });
      const error = await refused("conflict", () => two.thread("a").put("k", 2, { expect: 5 })) as ConflictError;
      assert.deepEqual([error.expected, error.actual], [5, 6]);
      await two.refresh();
      assert.equal(await two.thread("a").get("k"), 1);
    }),
  );

  onEach("A25 nothing that the caller or a reader holds can change what was written", async (log) => {
    const thread = log.thread("a");
    const input = { list: [{ n: 1 }], map: new Map([["k", { n: 1 }]]), when: new Date(5), bytes: new Uint8Array([1]) };
    const meta = { run: [1] };
    const writing = thread.put("k", input, { meta });
    input.list[0]!.n = 2;
    meta.run.push(2);
    const event = await writing;
    input.map.get("k")!.n = 2;
    input.when.setTime(9);
    input.bytes[0] = 9;
    input.list.push({ n: 3 });
    assert.equal(Object.isFrozen(input) || Object.isFrozen(input.list) || Object.isFrozen(input.list[0]), false);
    assert.equal(Object.isFrozen(meta) || Object.isFrozen(meta.run), false);
    const original = {
      list: [{ n: 1 }],
      map: new Map([["k", { n: 1 }]]),
      when: new Date(5),
      bytes: new Uint8Array([1]),
    };
    const spoil = (value: unknown) => {
      const { list, map, when, bytes } = value as typeof input;
      assert.throws(() => list[0]!.n = 7, TypeError);
      try {
        map.set("k", { n: 7 });
        when.setTime(7);
        bytes[0] = 7;
      } catch {
        // Refusing is as good as a copy.
      }
    };
    const read = async () => [
      await thread.get("k"),
      (await thread.entry("k"))!.value,
      (await thread.latest())!.value,
      (await all(thread.entries()))[0]!.value,
      (await all(log.read()))[0]!.value,
      (await all(thread.replay()))[0]!.value,
      await thread.at(1).get("k"),
      await log.snapshot().thread("a").get("k"),
      event.value,
    ];
    assert.deepEqual(event.meta, { run: [1] });
    for (const value of await read()) spoil(value);
    for (const value of (await read()).slice(0, -1)) assert.deepEqual(value, original);
  });

  onEach("A25 what a recipe returns or keeps stays the caller's", async (log) => {
    const thread = log.thread("a");
    await thread.put("k", { list: [1] });
    const mine = { list: [9], inner: { n: 1 } };
    await thread.update("k", () => mine);
    mine.inner.n = 2;
    assert.deepEqual(await thread.get("k"), { list: [9], inner: { n: 1 } });
    assert.equal(Object.isFrozen(mine) || Object.isFrozen(mine.inner), false);
    const part = { n: 1 };
    await thread.update("k", (draft) => {
      draft.part = part;
    });
    part.n = 2;
    assert.equal(Object.isFrozen(part), false);
    assert.deepEqual(await thread.get("k"), { list: [9], inner: { n: 1 }, part: { n: 1 } });
    const initial = { n: 1 };
    await thread.update("new", (draft) => void (draft.m = 1), { initial });
    assert.deepEqual(initial, { n: 1 });
    assert.equal(Object.isFrozen(initial), false);
  });

  onEach("A27 a prefix matches whole labels", async (log) => {
    const ids = [["tenant", "acme"], ["tenant", "acme", "prefs"], ["tenant", "acme-corp"], ["tenant", "acm"], "tenant"];
    for (const id of ids) await log.thread(id).put("item", id);
    await log.thread("tenant\0acme").put("item", 1);
    await log.thread(["tenant/acme"]).put("item", 1);
    const below = async (prefix: string | string[] | []) =>
      (await all(log.threads({ prefix }))).map(({ thread }) => thread);
    assert.deepEqual(await below(["tenant", "acme"]), [["tenant", "acme"], ["tenant", "acme", "prefs"]]);
    assert.deepEqual(await below("tenant"), ["tenant", ["tenant", "acm"], ["tenant", "acme"], [
      "tenant",
      "acme",
      "prefs",
    ], ["tenant", "acme-corp"]]);
    assert.equal((await below([])).length, 7);
    const events = await all(log.read({ prefix: ["tenant", "acme"] }));
    assert.deepEqual(events.map(({ position }) => position), [1, 2]);
    assert.deepEqual((await all(log.diff(0, 7, { prefix: ["tenant", "acme"] }))).length, 2);
    await log.erase(["tenant", "acme"]);
    assert.equal((await below([])).length, 5);
    assert.deepEqual(await log.thread(["tenant", "acme-corp"]).get("item"), ["tenant", "acme-corp"]);
  });

  onEach("A28 any string is a name, and none is a way out", async (log) => {
    const names = [
      "__proto__",
      "constructor",
      "prototype",
      "toString",
      "a'b\"c",
      "%",
      "_",
      "\0",
      "\x01",
      "a\0b",
      "",
      " ",
    ];
    names.push("Ä", "ä", "A", "日本", "😀", "\uffff", "'; DROP TABLE events; --", "a/b", "a.b", "[0]", "$", "NULL");
    for (const name of names) {
      await log.thread(name).put(name, { name });
      await log.thread([name, name]).append("said", { name }, { id: `x${name}` });
    }
    const listed = (await all(log.threads())).map(({ thread }) => thread);
    assert.equal(listed.length, 2 * names.length);
    for (const name of names) {
      assert.deepEqual(await log.thread(name).get(name), { name });
      assert.deepEqual(await all(log.thread(name).keys()), [name]);
      const [event] = await all(log.thread([name, name]).replay()) as [Event];
      assert.deepEqual([event.value, event.id], [{ name }, `x${name}`]);
      assert.equal((await all(log.threads({ prefix: name }))).length, 2);
      await log.thread("keys").put(name, name);
    }
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
    assert.deepEqual(Object.keys(Object.prototype), []);
    const byCodePoint = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
    assert.deepEqual(await all(log.thread("keys").keys()), names.toSorted(byCodePoint));
    for (const id of [{ $gt: "" }, null, undefined, 7, [], [""].concat([7 as never]), ["a", undefined], [["a"]]]) {
      await refused("invalid_id", () => log.thread(id as never));
      // As a prefix, none and [] stand for everything.
      if (id === undefined || (Array.isArray(id) && id.length === 0)) continue;
      await refused("invalid_id", () => log.read({ prefix: id as never }).next());
      await refused("invalid_id", () => log.threads({ prefix: id as never }).next());
    }
    for (const name of ["\ud800", "a\udc00"]) await refused("invalid_id", () => log.thread(name));
    await refused("too_large", () => log.thread("x".repeat(5000)));
  });

  it(
    "A28 names come back the same from a file",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const id = ["__proto__", "\0\x01", "😀"];
      {
        await using log = await openLog(path);
        await log.thread(id).put("__proto__", { ["__proto__"]: 1 });
      }
      const raw = rawConnection(path);
      assert.equal(raw.prepare("SELECT count(*) AS n FROM events").get()!.n, 1);
      raw.close();
      await using log = await openLog(path);
      assert.deepEqual((await all(log.threads()))[0]!.thread, id);
      const value = await log.thread(id).get("__proto__");
      assert.ok(Object.hasOwn(value, "__proto__"));
      assert.equal(Object.getPrototypeOf(value), Object.prototype);
    }),
  );
});
