/** What goes on at once: readers and projections beside appends and erasures, here and in another process. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { apply, defineProjection, type Log, openLog, type Operation } from "../mod.ts";
import type { StoredEvent } from "../log/backend.ts";
import { EVERYTHING, Waiters } from "../log/waiters.ts";
import { all, inFolder, onEach, onFile, rawConnection, refused, seeded, sleep, until } from "./support/scratch.ts";

const count = (name: string) => defineProjection({ name, version: 1, initial: () => 0, evolve: (n: number) => n + 1 });

describe("a projection that begins while appends go on", () => {
  onEach("misses none of them", async (log) => {
    let events = 0;
    for (let turns = 0; turns < 40; turns++) {
      for (let round = 0; round < 3; round++) {
        const two = (async () => {
          await log.thread("a").append("x", turns);
          await log.thread("a").append("x", turns);
        })();
        events += 2;
        for (let i = 0; i < turns; i++) await null;
        const projection = await log.project(count(`p${turns} ${round}`));
        await two;
        await log.thread("a").append("x", turns);
        events++;
        await projection.caughtUp();
        assert.deepEqual([await projection.state(), await projection.position()], [events, events], `after ${turns}`);
      }
    }
  });

  onEach("hands out a state that nobody can change", async (log) => {
    const plain = await log.project(defineProjection<{ total: number }>({
      name: "plain",
      version: 1,
      initial: () => ({ total: 0 }),
      evolve: ({ total }) => ({ total: total + 1 }),
    }));
    const map = await log.project(defineProjection<Map<string, number>>({
      name: "map",
      version: 1,
      initial: () => new Map(),
      evolve: (state, { type }) => new Map(state).set(type, (state.get(type) ?? 0) + 1),
    }));
    await log.thread("a").append("x");
    const state = await plain.state() as { total: number };
    assert.throws(() => state.total = 500, TypeError);
    (await map.state() as Map<string, number>).set("x", 500);
    await log.thread("a").append("x");
    assert.deepEqual([(await plain.state()).total, (await map.state()).get("x")], [2, 2]);
  });

  onEach("that can't be right says so, and harms nobody else", async (log) => {
    const promising = await log.project(defineProjection<unknown>({
      name: "promising",
      version: 1,
      initial: () => 0,
      evolve: () => Promise.resolve(1),
    }));
    const changing = await log.project(defineProjection<{ n: number }>({
      name: "changing",
      version: 1,
      initial: () => ({ n: 0 }),
      evolve: (state) => {
        state.n++;
        return state;
      },
    }));
    let begun = 0;
    const forgetful = await log.project(defineProjection<number>({
      name: "forgetful",
      version: 1,
      initial: () => {
        if (begun++ > 0) throw new Error("only once");
        return 0;
      },
      evolve: (n) => n + 1,
    }));
    await log.thread("a").append("x");
    await refused("schema", () => promising.state());
    await refused("schema", () => changing.state());
    assert.equal(await forgetful.state(), 1);
    assert.ok(await log.thread("a").erase() !== undefined);
    await refused("schema", () => forgetful.state());
  });
});

describe("a recipe in a batch", () => {
  onEach("that changes bytes and dates in place records what it did", async (log) => {
    interface State {
      bytes: Uint8Array;
      when: Date;
    }
    const before = { bytes: new Uint8Array([1]), when: new Date(0) };
    const [, patch] = await log.batch((batch) => {
      const thread = batch.thread<{ k: State; date: Date }>("a");
      thread.put("k", before);
      thread.update("k", (draft) => {
        draft.bytes[0] = 2;
        draft.when.setTime(9);
      });
    });
    const after = await log.thread("a").get("k");
    assert.deepEqual(after, { bytes: new Uint8Array([2]), when: new Date(9) });
    assert.deepEqual(apply(before, patch!.value as Operation[]), after);
  });
});

describe("reading what is being erased", () => {
  /** Erases and writes again, by turns, until told to stop. */
  async function disturb(log: Log, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await log.thread("t").put("k", 1);
      await sleep(0);
      await log.thread("t").erase({ scrub: false });
      await sleep(0);
    }
  }

  it(
    "gives the value or nothing, never an error",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await using log = await openLog(path, { durability: "normal", cacheBytes: 0 });
      await using other = await openLog(path, { durability: "normal" });
      const controller = new AbortController();
      const disturbing = disturb(other, controller.signal);
      const thread = log.thread("t");
      for (const end = performance.now() + 1500; performance.now() < end;) {
        const [value, latest, entries] = await Promise.all([
          thread.get("k"),
          thread.latest(),
          all(thread.entries()),
          thread.blame("k"),
          thread.update("k", () => 2, { initial: 0 }),
        ]);
        assert.ok([undefined, 1, 2].includes(value as number));
        assert.ok([undefined, 1, 2].includes(latest?.value as number));
        assert.ok(entries.length <= 1);
        await sleep(0);
      }
      controller.abort();
      await disturbing;
      assert.ok((await log.verify()).ok);
    }),
  );

  it(
    "gives nothing where it is erased between the look at the log and the read",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const { SqliteBackend } = await import("../backends/sqlite/sqlite_backend.ts");
      await using other = await openLog(path, { durability: "normal" });
      const reads = {
        entry: (log: Log) => log.thread("t").get("k"),
        latest: (log: Log) => log.thread("t").latest(),
        entries: async (log: Log) => (await all(log.thread("t").entries()))[0],
      };
      for (const [method, read] of Object.entries(reads)) {
        await other.thread("t").put("k", 1);
        await using log = await openLog(path, { durability: "normal" });
        await log.head();
        const prototype = SqliteBackend.prototype as unknown as Record<string, (...args: unknown[]) => unknown>;
        const original = prototype[method]!;
        let calls = 0;
        prototype[method] = async function (...args) {
          if (calls++ === 0) await other.thread("t").erase({ scrub: false });
          return await original.apply(this, args);
        };
        try {
          assert.equal(await read(log), undefined, method);
          assert.ok(calls > 0, `${method} was not asked`);
        } finally {
          prototype[method] = original;
        }
      }
    }),
  );

  onEach("a log that is being verified meanwhile is not called damaged", async (log) => {
    for (let i = 0; i < 5; i++) {
      await log.batch((batch) => {
        for (let j = 0; j < 1000; j++) batch.thread("t").put(`k${j}`, i);
      });
    }
    const erasing = log.thread("t").erase({ scrub: false });
    const reports = [];
    for (let i = 0; i < 5; i++) {
      await sleep(0);
      reports.push(await log.verify());
    }
    await erasing;
    for (const report of [...reports, await log.verify()]) assert.ok(report.ok, JSON.stringify(report.first));
  });

  it(
    "what a process that died has left is removed by one that lives",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await using log = await openLog(path, { durability: "normal" });
      for (let i = 0; i < 3; i++) await log.thread("t").put("k", `secret ${i}`);
      {
        // As it stands after the tombstone's transaction: nothing has been removed yet.
        const { SqliteBackend } = await import("../backends/sqlite/sqlite_backend.ts");
        const purge = SqliteBackend.prototype.purge;
        SqliteBackend.prototype.purge = () => Promise.resolve(false);
        try {
          await using dying = await openLog(path, { durability: "normal" });
          await dying.thread("t").erase({ scrub: false });
        } finally {
          SqliteBackend.prototype.purge = purge;
        }
      }
      assert.equal(await log.thread("t").get("k"), undefined);
      assert.ok((await log.verify()).ok);
      const rows = () => {
        const connection = rawConnection(path);
        try {
          return connection.prepare("SELECT count(*) AS n FROM events").get()!.n;
        } finally {
          connection.close();
        }
      };
      assert.equal(rows(), 4);
      await until(() => rows() === 1, 15_000);
      assert.ok((await log.verify()).ok);
    }),
  );
});

describe("the file under an open log", () => {
  for (const durability of ["full", "normal"] as const) {
    it(
      `that is removed or replaced is noticed (${durability})`,
      inFolder(async (folder) => {
        for (const how of ["removed", "replaced"]) {
          const path = join(folder, `${how}.db`);
          const log = await openLog(path, { durability });
          await log.thread("a").put("k", 1);
          if (how === "removed") rmSync(path);
          else {
            await (await openLog(join(folder, "other.db"))).close();
            renameSync(join(folder, "other.db"), path);
          }
          const random = seeded(4);
          const error = await refused("storage", async () => {
            // In normal mode one look in some hundred appends: it is a commit without a sync.
            for (let i = 0; i < 2000; i++) await log.thread("a").put("k", `${random()}`.repeat(20));
          });
          assert.match(error.message, /removed or replaced/);
          await refused("storage", () => log.thread("a").put("k", 2));
          await log.close();
        }
      }),
    );
  }

  it(
    "may be reached through links",
    inFolder(async (folder) => {
      mkdirSync(join(folder, "real"));
      symlinkSync(join(folder, "real"), join(folder, "linked"));
      symlinkSync(join(folder, "real", "a.db"), join(folder, "link.db")); // leads nowhere yet
      for (const name of ["link.db", "linked/a.db", "real/a.db"]) {
        await using log = await openLog(join(folder, name));
        await log.thread("a").put(name, 1);
        assert.ok(existsSync(join(folder, "real", "a.db-wal")) && !existsSync(join(folder, "link.db-wal")));
        assert.ok((await log.stats()).walBytes > 0);
      }
      await using one = await openLog(join(folder, "link.db"));
      await using two = await openLog(join(folder, "real", "a.db"));
      await one.thread("a").put("last", 1);
      assert.equal(await two.thread("a").get("last"), 1); // in the same turn
      assert.equal((await all(two.thread("a").keys())).length, 4);
    }),
  );
});

describe("a crowd of writers", () => {
  onEach("takes many transactions, and keeps its order", async (log) => {
    // 20 KB each: what one transaction does without holding up the loop is a few of them.
    const text = "0123456789abcdef".repeat(1250);
    await log.thread("t").put("n", { turns: [] as number[] });
    const done: number[] = [];
    const before = (await log.head()) + 1;
    const writes = Array.from({ length: 300 }, async (_, i) => {
      const thread = log.thread(i % 3 === 2 ? "t" : `n${i % 3}`);
      const event = i % 3 === 2
        ? await thread.update("n", (draft: { turns: number[] }) => void draft.turns.push(i))
        : await thread.put("k", `${i}${text}`);
      done.push(i);
      return event.position;
    });
    const loser = refused("conflict", () => log.thread("n0").put("k", 1, { expect: 7 }));
    const positions = await Promise.all(writes);
    await loser;
    assert.deepEqual(positions, positions.map((_, i) => before + i));
    for (const kind of [0, 1, 2]) {
      assert.deepEqual(done.filter((i) => i % 3 === kind), positions.map((_, i) => i).filter((i) => i % 3 === kind));
    }
    const { turns } = await log.thread("t").get("n") as { turns: number[] };
    assert.deepEqual(turns, positions.map((_, i) => i).filter((i) => i % 3 === 2));
    assert.ok((await log.verify()).ok);
  });
});

describe("subscribers beside each other", () => {
  onEach("see what passes their filters, each event once and in order", async (log) => {
    const stop = new AbortController();
    const filters = [
      {},
      { prefix: "a" },
      { prefix: ["a", "b"] },
      { types: ["y"] },
      { prefix: ["a", "b"], types: ["y"] },
      { prefix: "nobody" },
    ];
    const project = await log.project(count("beside")); // so that folding takes a while
    const followers = filters.map((filter) => {
      const seen: number[] = [];
      const done = (async () => {
        for await (const { position } of log.subscribe({ ...filter, signal: stop.signal })) {
          seen.push(position);
          if (position % 3 === 0) await null;
        }
      })();
      return { seen, done };
    });
    const random = seeded(7);
    const threads = ["a", ["a", "b"], ["a", "b", "c"], ["a", "bb"], "ab", "other"];
    const expected: number[][] = filters.map(() => []);
    for (let round = 0; round < 120; round++) {
      const events = await log.batch((batch) => {
        for (let i = 0; i <= random() * 3; i++) {
          const thread = batch.thread(threads[Math.floor(random() * threads.length)]!);
          thread.append(random() < 0.5 ? "x" : "y", round);
        }
      });
      for (const { position, thread, type } of events) {
        const path = [thread].flat();
        const isBelow = (...labels: string[]) => labels.every((label, i) => path[i] === label);
        const passes = [true, isBelow("a"), isBelow("a", "b"), type === "y", isBelow("a", "b") && type === "y", false];
        passes.forEach((it, i) => it && expected[i]!.push(position));
      }
      if (round % 5 === 0) await sleep(1);
    }
    await until(() => followers.every(({ seen }, i) => seen.length >= expected[i]!.length));
    await sleep(20);
    assert.deepEqual(followers.map(({ seen }) => seen), expected);
    assert.equal(await project.state(), expected[0]!.length);
    stop.abort();
    await Promise.all(followers.map(({ done }) => done));
  });
});

describe("who waits for an event", () => {
  it("is not woken by one that it has seen, by none twice, and by none after it has left", () => {
    const waiters = new Waiters();
    const told: (number | undefined)[] = [];
    const event = (position: number) => ({ position, path: "a\0", type: "x" }) as unknown as StoredEvent;
    const leave = waiters.add(EVERYTHING, 5, (position) => told.push(position));
    waiters.tell([event(4), event(5)]);
    assert.equal(told.length, 0);
    waiters.tell([event(6), event(7)]);
    waiters.tell([event(8)]);
    waiters.wakeAll();
    leave();
    assert.equal(String(told), "6");
    waiters.add(EVERYTHING, 8, (position) => told.push(position))();
    waiters.tell([event(9)]);
    waiters.add(EVERYTHING, 9, (position) => told.push(position));
    waiters.wakeAll();
    assert.deepEqual(told, [6, undefined]);
  });
});

describe("erasing", () => {
  it(
    "again makes up for what a disk that was full left behind",
    onFile(async (log, path) => {
      await log.thread("t").put("k", "the secret");
      const { SqliteBackend } = await import("../backends/sqlite/sqlite_backend.ts");
      const { purge, scrub } = SqliteBackend.prototype;
      SqliteBackend.prototype.purge = () => Promise.reject(new Error("no space"));
      try {
        const error = await refused("storage", () => log.thread("t").erase());
        assert.match(error.message, /compact\(\)/);
        // It can't be read, whatever is left.
        assert.equal(await log.thread("t").get("k"), undefined);
        assert.ok((await log.verify()).ok);
      } finally {
        SqliteBackend.prototype.purge = purge;
      }
      SqliteBackend.prototype.scrub = () => Promise.reject(new Error("no space"));
      try {
        await assert.rejects(() => log.thread("t").erase(), /no space/);
      } finally {
        SqliteBackend.prototype.scrub = scrub;
      }
      assert.equal(await log.thread("t").erase(), undefined);
      const connection = rawConnection(path);
      assert.equal(connection.prepare("SELECT count(*) AS n FROM events").get()!.n, 1);
      assert.equal(connection.prepare("SELECT value FROM meta WHERE name = 'scrub_due'").get()!.value, 0);
      connection.close();
    }),
  );

  onEach("a chain of forks, oldest first, costs what is erased", async (log) => {
    await log.thread(["f", "0000"]).put("k", 0);
    const forks = 150;
    for (let i = 1; i < forks; i++) {
      const name = (n: number) => ["f", String(n).padStart(4, "0")];
      await log.thread(name(i - 1)).fork(name(i));
      await log.thread(name(i)).put("k", i);
    }
    for (let i = 0; i < forks; i++) await log.thread(["f", String(i).padStart(4, "0")]).erase({ scrub: false });
    assert.equal((await log.stats()).events, forks);
    assert.ok((await log.verify()).ok);
  });

  onEach("and deleting a key with very many versions leaves the newest other", async (log) => {
    await log.thread("t").put("other", 1);
    for (let i = 0; i < 300; i++) await log.thread("t").put("k", i);
    await log.thread("t").put("gone", 1);
    await log.thread("t").delete("gone");
    assert.equal((await log.thread("t").latest())?.key, "k");
    await log.thread("t").delete("k");
    assert.equal((await log.thread("t").latest())?.key, "other");
  });
});
