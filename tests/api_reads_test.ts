/**
 * Reading: state now and at any point, listings, the log from any position, and subscriptions.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { type Event, type Log, openLog } from "../mod.ts";
import { start, thisRuntime } from "./support/processes.ts";
import { all, inFolder, onEach, onFile, refused, seeded, sleep, until } from "./support/scratch.ts";

describe("threads", () => {
  onEach("give their latest entry, whatever came after it", async (log) => {
    const thread = log.thread("a");
    assert.equal(await thread.latest(), undefined);
    assert.deepEqual(await thread.head(), { version: 0, position: 0 });
    await thread.put("x", 1, { meta: { m: 1 }, id: "one" });
    await thread.put("y", 2);
    await thread.append("said", "hi");
    const latest = (await thread.latest())!;
    assert.deepEqual([latest.key, latest.value, latest.version, latest.position, latest.id], ["y", 2, 2, 2, "@2"]);
    await thread.delete("y");
    const x = (await thread.latest())!;
    assert.deepEqual([x.key, x.value, x.version, x.meta, x.id], ["x", 1, 1, { m: 1 }, "one"]);
    assert.equal((await thread.at(3).latest())!.key, "y");
    await thread.delete("x");
    assert.equal(await thread.latest(), undefined);
    await thread.restore(3);
    assert.equal((await thread.latest())!.key, "y");
    const fork = await thread.fork("f", { at: 1 });
    assert.equal((await fork.latest())!.key, "x");
    await fork.update("x", (n) => n + 1);
    assert.deepEqual((await fork.latest())!.value, 2);
  });

  onEach("list entries and keys by prefix, in code point order, forward and back, page by page", async (log) => {
    const thread = log.thread("a");
    const names = Array.from({ length: 300 }, (_, i) => `k${String(i).padStart(3, "0")}`);
    const odd = ["", "\0", "K", "k", "ka", "\ufffd", "😀", "é"];
    await Promise.all([...names, ...odd].map((key) => thread.put(key, { key })));
    await thread.delete("k007");
    const order = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
    const wanted = [...names, ...odd].filter((key) => key !== "k007").sort(order);
    for (
      const view of [
        thread,
        thread.at({ position: await log.head() }),
        log.snapshot().thread("a"),
        log.at(309).thread("a"),
      ]
    ) {
      assert.deepEqual(await all(view.keys()), wanted);
      assert.deepEqual(await all(view.keys({ reverse: true })), wanted.toReversed());
      assert.deepEqual(
        (await all(view.entries())).map(({ key, value }) => [key, value]),
        wanted.map((key) => [key, { key }]),
      );
      assert.deepEqual(await all(view.keys({ prefix: "k00" })), names.slice(0, 10).filter((key) => key !== "k007"));
      assert.deepEqual(await all(view.keys({ prefix: "k00", reverse: true, limit: 2 })), ["k009", "k008"]);
      assert.deepEqual(await all(view.keys({ after: "k297" })), wanted.slice(wanted.indexOf("k297") + 1));
      assert.deepEqual(await all(view.keys({ after: "k002", reverse: true, prefix: "k0" })), ["k001", "k000"]);
      assert.deepEqual(await all(view.keys({ after: "k1", limit: 3 })), ["k100", "k101", "k102"]);
      assert.deepEqual(await all(view.keys({ limit: 0 })), []);
      assert.deepEqual(await all(view.keys({ prefix: "none" })), []);
    }
    assert.deepEqual(await all(thread.at(1).keys()), ["k000"]);
  });

  onEach("are listed in the order of their labels, by prefix, page by page, with their parents", async (log) => {
    const ids = Array.from({ length: 300 }, (_, i) => ["t", String(i).padStart(3, "0")]);
    for (const id of ids) await log.thread(id).append("made", null);
    await log.thread("solo").put("k", 1);
    await log.thread("solo").fork(["t", "fork"], { at: 1 });
    const listed = await all(log.threads());
    assert.deepEqual(listed.map(({ thread }) => thread), ["solo", ...ids, ["t", "fork"]]);
    const { time, ...fork } = listed.at(-1)!;
    assert.equal(typeof time, "number");
    assert.deepEqual(fork, {
      thread: ["t", "fork"],
      version: 2,
      position: 302,
      parent: { thread: "solo", version: 1 },
    });
    const page = await all(log.threads({ prefix: "t", after: ["t", "100"], limit: 2 }));
    assert.deepEqual(page.map(({ thread }) => thread), [["t", "101"], ["t", "102"]]);
    assert.equal((await all(log.at(5).threads())).length, 5);
    const snapshot = log.snapshot();
    await log.thread("later").put("k", 1);
    assert.equal((await all(snapshot.threads())).length, 302);
  });

  onEach("are read at a version, a position, a time, a snapshot or an event", async (log) => {
    const thread = log.thread("a");
    const snapshots = [log.snapshot()];
    const events: Event[] = [];
    for (let i = 1; i <= 4; i++) {
      events.push(await thread.put("k", i));
      await log.thread("b").put("k", 10 * i);
      snapshots.push(log.snapshot());
    }
    for (let i = 0; i <= 4; i++) {
      const value = i === 0 ? undefined : i;
      const other = i === 0 ? undefined : 10 * i;
      for (const at of [i, { version: i }, { position: 2 * i }, snapshots[i]!]) {
        assert.equal(await thread.at(at).get("k"), value);
        assert.equal((await thread.at(at).head()).version, i);
      }
      for (const at of [2 * i, { position: 2 * i }, snapshots[i]!]) {
        assert.equal(await log.at(at).thread("a").get("k"), value);
        assert.equal(await log.at(at).thread("b").get("k"), other);
      }
      assert.equal(await snapshots[i]!.thread("b").get("k"), other);
      assert.equal(snapshots[i]!.position, 2 * i);
    }
    assert.equal(await thread.at(events[2]!).get("k"), 3);
    assert.equal(await log.at(events[2]!).thread("b").get("k"), 20);
    assert.equal(await thread.at(new Date(Date.now() + 1000)).get("k"), 4);
    assert.equal(await thread.at(new Date(0)).get("k"), undefined);
    for (
      const read of [
        () => thread.at(5).get("k"),
        () => thread.at({ position: 9 }).get("k"),
        () => log.at(9).thread("a").get("k"),
      ]
    ) {
      await refused("not_found", read);
    }
  });
});

describe("read", () => {
  onEach("gives events from any point, filtered, up to the head of the moment", async (log) => {
    for (let i = 1; i <= 600; i++) {
      await log.thread(i % 2 ? ["t", "odd"] : ["t", "even"]).append(i % 3 ? "said" : "did", i);
    }
    const positions = async (options?: Parameters<Log["read"]>[0]) =>
      (await all(log.read(options))).map(({ position }) => position);
    const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1);
    assert.deepEqual(await positions(), upTo(600));
    assert.deepEqual(await positions({ after: 590 }), upTo(600).slice(590));
    assert.deepEqual(await positions({ after: 300, to: 303 }), [301, 302, 303]);
    assert.deepEqual(await positions({ to: { position: 2 } }), [1, 2]);
    assert.deepEqual(await positions({ prefix: ["t", "odd"], types: ["did"], limit: 3 }), [3, 9, 15]);
    assert.deepEqual(await positions({ types: [] }), []);
    assert.deepEqual(await positions({ limit: 0 }), []);
    assert.deepEqual(await positions({ after: 5, to: 5 }), []);
    assert.deepEqual(await positions({ after: log.snapshot() }), []);
    await refused("not_found", () => positions({ after: 601 }));
    const reading = log.read();
    await reading.next();
    await log.thread("late").put("k", 1);
    assert.equal((await all(reading)).length, 599);
  });
});

describe("subscribe", () => {
  onEach("catches up, then goes on live, each event once, in order, for each of two", async (log) => {
    const controller = new AbortController();
    await Promise.all(Array.from({ length: 300 }, () => log.thread("a").append("said", null)));
    const seen: number[][] = [[], []];
    const following = seen.map(async (list) => {
      for await (const event of log.subscribe({ signal: controller.signal })) list.push(event.position);
    });
    for (let i = 0; i < 300; i++) {
      await log.thread("a").append("said", null);
      if (i % 50 === 0) await sleep(1);
    }
    await until(() => seen.every(({ length }) => length === 600));
    controller.abort();
    await Promise.all(following);
    const wanted = Array.from({ length: 600 }, (_, i) => i + 1);
    assert.deepEqual(seen, [wanted, wanted]);
  });

  onEach("begins behind a point, and filters by prefix and type", async (log) => {
    for (const id of ["a", "b"]) await log.thread([id, "x"]).append("said", id);
    const controller = new AbortController();
    const { signal } = controller;
    const seen: Record<string, number[]> = { after: [], prefix: [], types: [] };
    const follow = async (name: string, options: Parameters<Log["subscribe"]>[0]) => {
      for await (const event of log.subscribe({ ...options, signal })) seen[name]!.push(event.position);
    };
    const following = [
      follow("after", { after: 2 }),
      follow("prefix", { prefix: "a" }),
      follow("types", { types: ["did"] }),
    ];
    await log.thread(["a", "y"]).append("did", 1);
    await log.thread("ab").append("said", 1);
    await log.thread(["b", "x"]).append("did", 1);
    await until(() => seen.after!.length === 3 && seen.types!.length === 2);
    controller.abort();
    await Promise.all(following);
    assert.deepEqual(seen, { after: [3, 4, 5], prefix: [1, 3], types: [3, 5] });
  });

  onEach("ends at an abort, before, while it waits, and in between; and at close", async (log) => {
    await log.thread("a").put("k", 1);
    assert.deepEqual(await all(log.subscribe({ signal: AbortSignal.abort() })), []);
    const controller = new AbortController();
    const waiting = all(log.subscribe({ after: 1, signal: controller.signal }));
    await sleep(20);
    controller.abort();
    assert.deepEqual(await waiting, []);
    const midway = new AbortController();
    await log.thread("a").put("k", 2);
    const seen = [];
    for await (const event of log.subscribe({ signal: midway.signal })) {
      seen.push(event.position);
      midway.abort();
    }
    assert.deepEqual(seen, [1]);
    const last = all(log.subscribe());
    await sleep(20);
    await log.close();
    assert.equal((await last).length, 2);
    await refused("closed", () => all(log.subscribe()));
  });

  onEach("can be left while it waits for an event that never comes", async (log) => {
    await log.thread("a").put("k", 1);
    const events = log.subscribe();
    assert.equal((await events.next()).value.position, 1);
    const waiting = events.next();
    await sleep(20);
    assert.deepEqual(await events.return!(), { done: true, value: undefined });
    assert.deepEqual(await waiting, { done: true, value: undefined });
  });

  onEach("lets others have their turn on the way", async (log) => {
    for (let i = 0; i < 20; i++) {
      await log.batch((batch) => {
        for (let j = 0; j < 500; j++) batch.thread(`t${j % 7}`).put(`k${j}`, i);
      });
    }
    for (let i = 0; i < 3; i++) {
      await log.batch((batch) => {
        for (let j = 0; j < 300; j++) batch.thread("blamed").put("k", { j });
      });
    }
    for (
      const walk of [
        () => all(log.read()),
        () => all(log.read({ prefix: "none" })),
        () => all(log.thread("t1").replay()),
        () => all(log.diff(0, 10_000)),
        () => log.verify(),
        () => log.thread("blamed").blame("k", "/never"),
      ]
    ) {
      let turns = 0;
      const timer = setInterval(() => turns++, 0);
      await walk();
      clearInterval(timer);
      assert.ok(turns > 0, `${walk}: ${turns} turns`);
    }
  });

  onEach("lets a slow reader be slow, and holds nobody up", async (log) => {
    const random = seeded(3);
    const controller = new AbortController();
    const slow: number[] = [];
    const following = (async () => {
      for await (const event of log.subscribe({ signal: controller.signal })) {
        slow.push(event.position);
        if (random() < 0.05) await sleep(3);
      }
    })();
    const began = performance.now();
    await Promise.all(Array.from({ length: 1000 }, () => log.thread("a").append("said", null)));
    assert.ok(performance.now() - began < 2000);
    await until(() => slow.length === 1000);
    controller.abort();
    await following;
    assert.deepEqual(slow, Array.from({ length: 1000 }, (_, i) => i + 1));
  });

  it(
    "sees what another log on the file appends, and what another process does",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await using log = await openLog(path);
      await using other = await openLog(path);
      const seen: unknown[] = [];
      const controller = new AbortController();
      const following = (async () => {
        for await (const event of log.subscribe({ signal: controller.signal })) {
          seen.push([event.thread, event.version]);
        }
      })();
      for (let i = 0; i < 3; i++) await other.thread("other").put("k", i);
      await until(() => seen.length === 3);
      const child = start(thisRuntime, "follow.ts", [path, "3"]);
      await until(() => seen.length === 4);
      for (let i = 1; i <= 3; i++) await log.thread("parent").put("k", i);
      assert.equal(await child.ended, 0, child.errors());
      controller.abort();
      await following;
      assert.deepEqual(child.lines, ["saw 1 1", "saw 2 2", "saw 3 3"]);
      assert.deepEqual(seen.slice(0, 4), [["other", 1], ["other", 2], ["other", 3], ["child", 1]]);
      assert.equal(await log.thread("child").get("k"), "here");
    }),
  );

  it(
    "sees a burst of another log that is larger than it keeps up with in memory",
    onFile(async (log, path) => {
      await log.thread("a").put("k", 0);
      await log.thread("a").get("k");
      {
        await using other = await openLog(path, { durability: "normal" });
        for (let n = 0; n < 3; n++) {
          await Promise.all(Array.from({ length: 5000 }, (_, i) => other.thread("a").put(`k${i % 10}`, n * 5000 + i)));
        }
      }
      assert.equal(await log.thread("a").get("k9"), 14_999);
      assert.equal(await log.head(), 15_001);
      assert.equal((await all(log.read({ after: 10_000 }))).length, 5001);
      assert.equal((await log.thread("a").put("k", 1)).version, 15_002);
    }),
  );
});
