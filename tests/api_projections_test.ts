/**
 * Projections of an app's own, upcasters, and event times.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { defineProjection, type Log, openLog, type ProjectionDefinition, type Upcaster } from "../mod.ts";
import { SqliteBackend } from "../backends/sqlite/sqlite_backend.ts";
import { all, inFolder, onEach, onFile, rawSql, refused } from "./support/scratch.ts";

interface Sum {
  readonly total: number;
  readonly seen: readonly number[];
}

function sum(rest: Partial<ProjectionDefinition<Sum>> = {}): ProjectionDefinition<Sum> {
  return defineProjection({
    name: "sum",
    version: 1,
    types: ["added"],
    initial: () => ({ total: 0, seen: [] }),
    evolve: ({ total, seen }, event) => ({ total: total + (event.value as number), seen: [...seen, event.position] }),
    ...rest,
  });
}

async function add(log: Log, ...numbers: number[]): Promise<void> {
  for (const n of numbers) await log.thread("a").append("added", n);
}

describe("projections", () => {
  onEach("inline have folded an append before it resolves", async (log) => {
    await add(log, 1, 2);
    const projection = await log.project(sum());
    assert.deepEqual([projection.name, await projection.state()], ["sum", { total: 3, seen: [1, 2] }]);
    await log.thread("a").append("other", 100);
    await add(log, 3);
    assert.deepEqual([await projection.state(), await projection.position()], [{ total: 6, seen: [1, 2, 4] }, 4]);
    assert.deepEqual(await projection.at(2), { total: 3, seen: [1, 2] });
    assert.deepEqual(await projection.at(0), { total: 0, seen: [] });
    const snapshot = log.snapshot();
    await add(log, 4);
    assert.deepEqual((await projection.at(snapshot)).total, 6);
    await projection.caughtUp();
  });

  onEach("behind catch up, hold nobody up, and see every event once", async (log) => {
    const projection = await log.project(sum({ mode: "behind", saveEvery: 1 }));
    await Promise.all(Array.from({ length: 500 }, () => log.thread("a").append("added", 1)));
    await projection.caughtUp();
    const { total, seen } = await projection.state();
    assert.equal(total, 500);
    assert.deepEqual(seen, Array.from({ length: 500 }, (_, i) => i + 1));
    assert.equal(await projection.position(), 500);
  });

  onEach("take events of a prefix only", async (log) => {
    const projection = await log.project(sum({ prefix: ["t", "a"] }));
    for (const id of [["t", "a"], ["t", "a", "b"], ["t", "ab"], ["t"]]) await log.thread(id).append("added", 1);
    assert.deepEqual((await projection.state()).seen, [1, 2]);
  });

  onEach("forget what was erased", async (log) => {
    const inline = await log.project(sum());
    const behind = await log.project(sum({ name: "behind", mode: "behind" }));
    await add(log, 1, 2);
    await log.thread("b").append("added", 10);
    await behind.caughtUp();
    await log.thread("a").erase();
    await behind.caughtUp();
    assert.deepEqual(await inline.state(), { total: 10, seen: [3] });
    assert.deepEqual(await behind.state(), { total: 10, seen: [3] });
    assert.deepEqual(await inline.at(await log.head()), { total: 10, seen: [3] });
  });

  onEach("that throw say where, and the log goes on", async (log) => {
    const evolve = ({ total, seen }: Sum, event: { position: number }) => {
      if (event.position === 2) throw new RangeError("mine");
      return { total, seen: [...seen, event.position] };
    };
    const projection = await log.project(sum({ evolve }));
    await add(log, 1, 2, 3);
    const error = await refused("schema", () => projection.state());
    assert.match(error.place!, /position 2/);
    assert.deepEqual((error.cause as Error).message, "mine");
    assert.equal(await log.head(), 3);
  });

  onEach("whose state can't be saved say so, and the log goes on", async (log) => {
    const evolve = ({ total }: Sum) => ({ total: total + 1, seen: [], trouble: () => {} });
    const projection = await log.project(sum({ evolve, saveEvery: 2 }));
    await add(log, 1, 2, 3);
    await refused("unencodable", () => projection.state());
    assert.equal(await log.head(), 3);
  });

  it(
    "start from what was saved, in this runtime or another",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      let folded = 0;
      const counting = (mode: "inline" | "behind") =>
        sum({
          name: mode,
          mode,
          saveEvery: 10,
          evolve: ({ total }) => (folded++, { total: total + 1, seen: [] }),
        });
      {
        await using log = await openLog(path);
        for (const mode of ["inline", "behind"] as const) await log.project(counting(mode));
        for (let i = 0; i < 35; i++) await add(log, 1);
        await (await log.project(counting("behind"))).caughtUp();
      }
      folded = 0;
      await using log = await openLog(path);
      for (const mode of ["inline", "behind"] as const) {
        const projection = await log.project(counting(mode));
        await projection.caughtUp();
        assert.equal((await projection.state()).total, 35);
      }
      assert.equal(folded, 0);
    }),
  );

  it(
    "see what another log on the file appends",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await using log = await openLog(path);
      await using other = await openLog(path);
      const inline = await log.project(sum());
      const behind = await log.project(sum({ name: "behind", mode: "behind" }));
      await add(other, 1, 2, 3);
      await log.refresh();
      assert.equal((await inline.state()).total, 6);
      await behind.caughtUp();
      assert.equal((await behind.state()).total, 6);
      await other.thread("a").erase();
      await log.refresh();
      assert.equal((await inline.state()).total, 0);
    }),
  );

  it(
    "behind end with the log, and whoever waits is told",
    onFile(async (log) => {
      const projection = await log.project(sum({ mode: "behind" }));
      await add(log, 1, 2);
      const waiting = projection.caughtUp().catch((error: { code: string }) => error.code);
      await log.close();
      assert.ok([undefined, "closed"].includes(await waiting as undefined));
      await refused("closed", () => projection.caughtUp());
    }),
  );

  it(
    "behind that can't read the log say so instead of waiting for ever",
    onFile(async (log, path) => {
      await add(log, 1, 2, 3);
      rawSql(path, "UPDATE events SET time = 1.5 WHERE position = 2");
      const projection = await log.project(sum({ mode: "behind" }));
      await refused("corrupt", () => projection.caughtUp());
      await refused("corrupt", () => projection.state());
    }),
  );

  it(
    "may be saved while others write on the same connection",
    inFolder(async (folder) => {
      const backend = await SqliteBackend.open(join(folder, "a.db"), {
        codecId: "x",
        now: Date.now,
        durability: "normal",
        readOnly: false,
        busyTimeoutMs: 1000,
        allowNetworkFilesystem: false,
        payloadBytes: 1 << 20,
        maxValueBytes: 1 << 26,
      });
      const saved = { version: 1, position: 0, state: new Uint8Array(1) };
      const writes = [backend.saveState("a", saved), backend.append([]), backend.saveState("b", saved)];
      assert.deepEqual((await Promise.allSettled(writes)).map(({ status }) => status), new Array(3).fill("fulfilled"));
      await backend.close();
    }),
  );

  onEach("are refused if they are not defined as they should be", async (log) => {
    const wrong: [unknown, string][] = [
      [undefined, "invalid_argument"],
      [null, "invalid_argument"],
      [{}, "invalid_id"],
      [sum, "invalid_argument"],
      [{ ...sum(), name: 7 }, "invalid_id"],
      [{ ...sum(), version: 0 }, "invalid_argument"],
      [{ ...sum(), version: 1.5 }, "invalid_argument"],
      [{ ...sum(), version: "1" }, "invalid_argument"],
      [{ ...sum(), initial: {} }, "invalid_argument"],
      [{ ...sum(), evolve: undefined }, "invalid_argument"],
      [{ ...sum(), mode: "later" }, "invalid_argument"],
      [{ ...sum(), saveEvery: 0 }, "invalid_argument"],
      [{ ...sum(), types: "added" }, "invalid_argument"],
      [{ ...sum(), types: [7] }, "invalid_id"],
      [{ ...sum(), prefix: 7 }, "invalid_id"],
    ];
    for (const [definition, code] of wrong) {
      await refused(code as "invalid_id", () => defineProjection(definition as never));
      await refused(code as "invalid_id", () => log.project(definition as never));
    }
  });
});

const OLD_USER = { first: "Ada", last: "L" };
const upcasters: readonly Upcaster[] = [
  { type: "user.named", from: 2, upcast: (value) => ({ ...value as object, v3: true }) },
  { type: "user.named", from: 1, upcast: (value) => ({ name: Object.values(value as object).join(" ") }) },
  { type: "set", from: 1, upcast: (value, key) => key === "user" ? { ...value as object, key } : value },
];

describe("upcasters", () => {
  it(
    "read app events, values and patches of an old schema in today's shape",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      {
        await using log = await openLog(path);
        const thread = log.thread("a");
        await thread.append("user.named", OLD_USER);
        await thread.put("user", OLD_USER);
        await thread.update("user", (draft) => void (draft.first = "Eva"));
        await thread.put("plain", 1);
      }
      for (let round = 0; round < 2; round++) {
        await using log = await openLog(path, { upcasters });
        const thread = log.thread("a");
        const [event] = await all(log.read());
        assert.deepEqual(event!.value, { name: "Ada L", v3: true });
        assert.deepEqual(await thread.at(2).get("user"), { ...OLD_USER, key: "user" });
        assert.deepEqual(await thread.at(3).get("user"), { first: "Eva", last: "L", key: "user" });
        assert.equal(await thread.get("plain"), 1);
        const change = (await all(thread.diff(2, 3)))[0]!;
        assert.deepEqual(change.operations, [{ op: "replace", path: "/first", value: "Eva" }]);
        await thread.update("user", (draft) => void (draft.last = `M${round}`));
        assert.deepEqual(await thread.get("user"), { first: "Eva", last: `M${round}`, key: "user" });
        const named = await thread.append("user.named", { name: "New", v3: true });
        assert.deepEqual(named.value, { name: "New", v3: true });
        assert.equal((await log.verify()).ok, true);
      }
      await using old = await openLog(path);
      const error = await refused("schema", () => all(old.read({ after: 4 })));
      assert.match(error.message, /user\.named|"set"/);
      await refused("schema", () => old.thread("a").get("user"));
      assert.deepEqual((await all(old.read({ to: 1 })))[0]!.value, OLD_USER);
      assert.equal(await old.thread("a").get("plain"), 1);
    }),
  );

  it(
    "must be complete and in order, and one that throws is named",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const step = (from: number) => ({ type: "t", from, upcast: (value: unknown) => value });
      for (
        const wrong of [[step(2)], [step(1), step(3)], [step(1), step(1)], [{ type: "t", from: 1 }], [null], "x", [{}]]
      ) {
        await refused("invalid_argument", () => openLog(path, { upcasters: wrong as never }));
      }
      {
        await using log = await openLog(path);
        await log.thread("a").append("t", 1);
      }
      const upcast = () => {
        throw new Error("mine");
      };
      await using log = await openLog(path, { upcasters: [{ type: "t", from: 1, upcast }] });
      const error = await refused("schema", () => all(log.read()));
      assert.equal((error.cause as Error).message, "mine");
    }),
  );
});

describe("event times", () => {
  it(
    "never run backwards, also across threads, batches and openings",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      let clock = 1000;
      const options = { now: () => clock };
      {
        await using log = await openLog(path, options);
        await log.thread("a").put("k", 1);
        clock = 500;
        assert.equal((await log.thread("b").put("k", 2)).time, 1000);
        clock = 2000.75;
        assert.equal((await log.thread("a").put("k", 3)).time, 2000);
      }
      clock = 7;
      await using log = await openLog(path, options);
      const events = await log.batch((batch) => (batch.thread("a").put("k", 4), batch.thread("c").put("k", 5)));
      assert.deepEqual(events.map(({ time }) => time), [2000, 2000]);
      clock = 3000;
      await log.thread("a").put("k", 6);
      assert.equal(await log.thread("a").at(new Date(2999)).get("k"), 4);
      assert.equal(await log.thread("a").at(new Date(1999)).get("k"), 1);
      assert.equal(await log.thread("a").at(new Date(999)).get("k"), undefined);
      assert.equal(await log.at(new Date(1000)).thread("b").get("k"), 2);
      for (const bad of [NaN, Infinity, -1, "x", undefined, 2 ** 60]) {
        clock = bad as number;
        await refused("invalid_argument", () => log.thread("a").put("k", 7));
      }
      clock = 4000;
      assert.equal((await log.thread("a").put("k", 8)).position, 7);
      assert.equal((await log.verify()).ok, true);
    }),
  );
});
