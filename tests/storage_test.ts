/**
 * Storage that grows with what changes: whatever a value's history, every version reads back exactly, costs about what
 * has changed, and is read at about the cost of reading it whole.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import fc from "fast-check";
import { type Log, openLog } from "../mod.ts";
import type { Row } from "../backends/sqlite/driver.ts";
import { logSubjects } from "./support/backends.ts";
import { inFolder, onEach, onFile, rawConnection, rawSql, refused, seeded } from "./support/scratch.ts";
import { seed, timeLimit } from "./support/seed.ts";

const RUNS = Number(process.env.THREADLOG_RUNS ?? 1);

// ---- histories

/** One change of a value; `n` and `text` say which and to what. */
interface Edit {
  readonly kind:
    | "append"
    | "prepend"
    | "inPlace"
    | "truncate"
    | "reorder"
    | "type"
    | "huge"
    | "empty"
    | "same"
    | "bytes";
  readonly n: number;
  readonly text: string;
}

function edited(value: unknown, { kind, n, text }: Edit): unknown {
  const list = Array.isArray(value) ? structuredClone(value) as unknown[] : [value];
  const message = { id: `m${n}`, role: n % 2 ? "user" : "tool", text: text.repeat(1 + n % 20), when: new Date(n) };
  switch (kind) {
    case "append":
      return [...list, message];
    case "prepend":
      return [message, ...list];
    case "inPlace":
      if (list.length > 0) list[n % list.length] = { ...message, changed: true };
      return list;
    case "truncate":
      return list.slice(0, n % (list.length + 1));
    case "reorder":
      return [...list.slice(n % (list.length + 1)), ...list.slice(0, n % (list.length + 1))];
    case "type":
      return [text, n, null, new Map([[text, n]]), { [text]: list }][n % 5];
    case "huge":
      return [...list, Array.from({ length: 300 }, (_, i) => ({ i: i * n, text: text + i }))];
    case "empty":
      return [[], {}, "", new Uint8Array(0)][n % 4];
    case "bytes":
      return [...list, new Uint8Array(200 + n).fill(n)];
    case "same":
      return value;
  }
}

const KINDS = [
  "append",
  "prepend",
  "inPlace",
  "truncate",
  "reorder",
  "type",
  "huge",
  "empty",
  "same",
  "bytes",
] as const;
const edit: fc.Arbitrary<Edit> = fc.record({
  kind: fc.oneof({ weight: 5, arbitrary: fc.constant("append" as const) }, fc.constantFrom(...KINDS)),
  n: fc.nat(400),
  text: fc.string({ maxLength: 12, unit: "grapheme" }),
});
type Step = readonly [how: "put" | "update" | "delete" | "fork" | "restore" | "note", key: "a" | "b", edit: Edit];
const step: fc.Arbitrary<Step> = fc.tuple(
  fc.oneof(
    { weight: 8, arbitrary: fc.constant("put" as const) },
    { weight: 4, arbitrary: fc.constant("update" as const) },
    fc.constantFrom("delete" as const, "fork" as const, "restore" as const, "note" as const),
  ),
  fc.constantFrom("a" as const, "b" as const),
  edit,
);

type State = Readonly<Record<string, unknown>>;

/** Performs a history; gives what each thread must hold at each version. */
async function perform(log: Log, steps: readonly Step[]): Promise<Map<string, State[]>> {
  let name = "t0";
  const states = new Map<string, State[]>([[name, [{}]]]);
  for (const [how, key, change] of steps) {
    const thread = log.thread(name);
    const mine = states.get(name)!;
    const state = mine.at(-1)!;
    const { [key]: before, ...others } = state;
    const after = edited(before, change);
    switch (how) {
      case "put":
        await thread.put(key, after);
        mine.push({ ...others, [key]: after });
        break;
      case "update":
        await thread.update(key, () => after, { initial: null });
        mine.push({ ...others, [key]: after });
        break;
      case "delete":
        await thread.delete(key);
        mine.push(others);
        break;
      case "note":
        await thread.append("noted", after);
        mine.push(state);
        break;
      case "restore": {
        if (mine.length === 1) break;
        const version = change.n % mine.length;
        await thread.restore(version);
        mine.push(mine[version]!);
        break;
      }
      case "fork": {
        if (mine.length === 1) break;
        const version = 1 + change.n % (mine.length - 1);
        name = `t${states.size}`;
        await thread.fork(name, { at: version });
        states.set(name, [...mine.slice(0, version + 1), mine[version]!]);
      }
    }
  }
  return states;
}

async function hold(log: Log, states: ReadonlyMap<string, readonly State[]>): Promise<void> {
  for (const [name, versions] of states) {
    for (const [version, state] of versions.entries()) {
      if (version === 0) continue;
      const found: Record<string, unknown> = {};
      for await (const { key, value } of log.thread(name).at(version).entries()) found[key] = value;
      assert.deepEqual(found, state, `${name} at ${version}`);
    }
  }
  const report = await log.verify();
  assert.ok(report.ok, JSON.stringify(report.first));
}

describe("any history of edits reads back exactly at every version", () => {
  for (const subject of logSubjects) {
    it(
      `${subject.name}, after reopening and across forks`,
      inFolder(async (folder) => {
        const property = fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), async (steps) => {
          const place = join(folder, `${Math.random()}`);
          const { mkdirSync, rmSync } = await import("node:fs");
          mkdirSync(place);
          try {
            let states;
            {
              // Without memory for payloads or values, each is read from what is stored.
              await using log = await subject.open(place, { cacheBytes: steps.length % 2 ? 0 : 1 << 20 });
              states = await perform(log, steps);
              await hold(log, states);
            }
            if (!subject.durable) return;
            await using log = await subject.open(place);
            await hold(log, states);
            // What was inherited stays, whoever it was inherited from.
            if (states.size > 1) {
              await log.erase("t0", { scrub: false });
              states.delete("t0");
              await hold(log, states);
            }
          } finally {
            rmSync(place, { recursive: true, force: true });
          }
        });
        await fc.assert(property, { numRuns: 25 * RUNS, seed, interruptAfterTimeLimit: timeLimit(30_000) });
      }),
    );
  }
});

// ---- what it costs

/** The rows that a read of each payload takes, from the tables alone: their number, their bytes, and the payload's. */
function costs(path: string): { links: number; read: number; whole: number }[] {
  const connection = rawConnection(path);
  try {
    const rows = connection.prepare("SELECT position, packing, value, state FROM events ORDER BY position").all();
    const byPosition = new Map(rows.map((row) => [row.position as number, row]));
    const read = (row: Row): { links: number; read: number } => {
      const length = ((row.state ?? row.value) as Uint8Array).length;
      if (row.packing === null || row.packing === 0) return { links: 0, read: length };
      const base = read(byPosition.get(Math.abs(row.packing as number))!);
      return { links: base.links + 1, read: base.read + length };
    };
    return rows.filter(({ value, state }) => value !== null || state !== null).map((row) => ({
      ...read(row),
      whole: 0,
    }));
  } finally {
    connection.close();
  }
}

/** Text that can't be compressed much. */
function noise(length: number, random: () => number): string {
  let text = "";
  while (text.length < length) text += Math.floor(random() * 2 ** 40).toString(36);
  return text.slice(0, length);
}

describe("a value costs what has changed of it", () => {
  const bytes = async (log: Log) => {
    const { dataBytes, walBytes } = await log.stats();
    return dataBytes + walBytes;
  };

  for (const how of ["put", "update"] as const) {
    it(
      `an array that grows by a message, by ${how}`,
      inFolder(async (folder) => {
        const random = seeded(11);
        const path = join(folder, "a.db");
        const messages: unknown[] = [];
        let content = 0;
        {
          await using log = await openLog(path, { durability: "normal" });
          const thread = log.thread("t");
          for (let i = 0; i < 300; i++) {
            const message = { id: i, text: noise(700, random) };
            content += 720;
            messages.push(message);
            if (how === "put") await thread.put("messages", messages);
            else await thread.update("messages", (draft: unknown[]) => void draft.push(message), { initial: [] });
          }
        }
        await using log = await openLog(path);
        assert.ok(await bytes(log) < 2.5 * content, `${await bytes(log)} bytes for ${content}`);
        assert.deepEqual(await log.thread("t").get("messages"), messages);
      }),
    );
  }

  it(
    "a fork's first change, and a new key beside one like it",
    onFile(async (log, path) => {
      const random = seeded(12);
      const state = { plan: noise(4000, random), step: 1 };
      await log.thread("t").put("k1", state);
      await log.thread("t").put("k2", { ...state, step: 2 });
      const fork = await log.thread("t").fork("f");
      await fork.put("k1", { ...state, step: 3 });
      const connection = rawConnection(path);
      const sizes = connection.prepare("SELECT length(value) AS n FROM events WHERE key IS NOT NULL ORDER BY position")
        .all().map(({ n }) => n as number);
      connection.close();
      assert.ok(sizes[0]! > 4000 && sizes[1]! < 50 && sizes[2]! < 50, sizes.join());
    }),
  );

  it(
    "what is long is compressed where that pays",
    onFile(async (log, path) => {
      const random = seeded(13);
      const long = { text: "All work and no play. ".repeat(5000) };
      const dense = { text: new Uint8Array(100_000).map(() => Math.floor(random() * 256)) };
      await log.thread("a").put("k", long);
      await log.thread("b").append("said", long);
      await log.thread("c").put("k", dense);
      const connection = rawConnection(path);
      const rows = connection.prepare("SELECT length(value) AS n, packing FROM events ORDER BY position").all();
      connection.close();
      assert.ok((rows[0]!.n as number) < 2000 && rows[0]!.packing === 0);
      assert.ok((rows[1]!.n as number) < 2000 && rows[1]!.packing === 0);
      assert.ok((rows[2]!.n as number) > 100_000 && rows[2]!.packing === null);
      await using again = await openLog(path, { readOnly: true });
      assert.deepEqual(await again.thread("a").get("k"), long);
      assert.deepEqual((await again.thread("b").replay().next()).value.value, long);
    }),
  );
});

describe("a cold read costs at most three times the value", () => {
  for (
    const [name, change] of Object.entries({
      "a counter in a large value": (value: Record<string, unknown>, i: number) => ({ ...value, step: i }),
      "a window that moves": (value: Record<string, unknown>, i: number, random: () => number) => ({
        ...value,
        messages: [...(value.messages as unknown[] ?? []), noise(500, random)].slice(-8),
        step: i,
      }),
      "half of it replaced": (value: Record<string, unknown>, _: number, random: () => number) => ({
        ...value,
        half: noise(2500, random),
      }),
    })
  ) {
    it(
      `in bytes, and in links: ${name}`,
      inFolder(async (folder) => {
        const path = join(folder, "a.db");
        const random = seeded(14);
        let value: Record<string, unknown> = { text: noise(3000, random) };
        const lengths: number[] = [];
        {
          await using log = await openLog(path, { durability: "normal" });
          for (let i = 0; i < 300; i++) {
            value = change(value, i, random);
            lengths.push(JSON.stringify(value).length);
            await log.thread("t").put("k", value);
          }
        }
        const found = costs(path);
        assert.equal(found.length, 300);
        found.forEach(({ links, read }, i) => {
          // JSON's length is that of MessagePack but for a few percent.
          assert.ok(read <= 3.1 * lengths[i]!, `${read} bytes for ${lengths[i]}`);
          assert.ok(links <= 4 + lengths[i]! / 500, `${links} links for ${lengths[i]}`);
        });
        assert.ok(found.some(({ links }) => links > 2), "there are deltas");
      }),
    );
  }
});

describe("deltas and others", () => {
  it(
    "two logs on one file build on each other's values",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await using one = await openLog(path, { durability: "normal" });
      await using two = await openLog(path, { durability: "normal" });
      const random = seeded(15);
      const messages: unknown[] = [];
      for (let i = 0; i < 60; i++) {
        messages.push({ i, text: noise(300, random) });
        await (i % 3 ? one : two).thread("t").put("messages", messages);
        if (i === 30) {
          // What was there is gone, and so is what a delta could build on.
          await two.thread("t").erase({ scrub: false });
        }
        assert.deepEqual(await (i % 2 ? one : two).thread("t").get("messages"), i === 30 ? undefined : messages);
      }
      assert.ok((await one.verify()).ok);
    }),
  );

  onEach("a refused batch leaves nothing that a later delta builds on", async (log) => {
    const random = seeded(16);
    const thread = log.thread("t");
    const base = { text: noise(1000, random) };
    await thread.put("k", base);
    for (let i = 0; i < 20; i++) {
      const other = { text: noise(1000, random) };
      await refused("conflict", () =>
        log.batch((batch) => {
          batch.thread("t").put("k", other, { expect: 99 });
        }));
      await thread.put("k", { ...base, i });
      assert.deepEqual(await thread.get("k"), { ...base, i });
    }
    assert.ok((await log.verify()).ok);
  });

  it(
    "what a transaction that was undone has left in memory is not read in its place",
    onFile(async (log) => {
      const { SqliteStore } = await import("../backends/sqlite/sqlite_store.ts");
      const { index } = SqliteStore.prototype;
      SqliteStore.prototype.index = () => {
        throw new Error("at the last moment");
      };
      try {
        await assert.rejects(() => log.thread("t").put("k", { text: "never written ".repeat(2000) }), /last moment/);
      } finally {
        SqliteStore.prototype.index = index;
      }
      const value = { text: "written ".repeat(3000) };
      assert.equal((await log.thread("t").append("said", value)).position, 1);
      assert.deepEqual((await log.thread("t").replay().next()).value.value, value);
    }),
  );

  it(
    "a payload that is damaged is an error that names the place, and the rest stays readable",
    inFolder(async (folder) => {
      const random = seeded(17);
      const texts = [noise(2000, random), noise(2000, random)];
      for (
        const [damage, code] of [
          ["value = X'ff'", "corrupt"],
          ["value = X'7f0101'", "corrupt"],
          ["packing = 0", "corrupt"],
          ["packing = 99", "corrupt"],
          ["packing = 3", "corrupt"],
          ["value = NULL", undefined],
        ] as const
      ) {
        const path = join(folder, `${damage}.db`);
        {
          await using log = await openLog(path, { durability: "normal" });
          await log.thread("other").put("k", "fine");
          await log.thread("t").put("k", texts);
          await log.thread("t").put("k", [...texts, 3]);
          await log.thread("t").put("k", [...texts, 4]);
        }
        rawSql(path, `UPDATE events SET ${damage} WHERE position = 3`);
        await using log = await openLog(path);
        assert.equal(await log.thread("other").get("k"), "fine", damage);
        assert.deepEqual(await log.thread("t").at(1).get("k"), texts, damage);
        if (code !== undefined) {
          const error = await refused(code, () => log.thread("t").at(2).get("k"));
          assert.match(error.place!, /position 3/, damage);
        }
        const report = await log.verify();
        assert.deepEqual([report.ok, report.first?.position], [false, 3], `${damage}: ${report.first?.reason}`);
      }
    }),
  );
});
