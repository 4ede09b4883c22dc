/**
 * Hostile files and arguments: whatever is in them, the process goes on, every error is typed, nothing runs, and memory
 * stays bounded: below a hundred bytes for each byte of `maxValueBytes`, beside what a log takes anyway.
 */
import assert from "node:assert/strict";
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { apply, msgpack, openLog, ThreadlogError } from "../../mod.ts";
import { allEnd, start, thisRuntime } from "../support/processes.ts";
import { all, inFolder, rawConnection, seeded } from "../support/scratch.ts";
import { runs, seed } from "../support/seed.ts";
import { payloads, VALUES } from "./bombs.ts";
import { report } from "./table.ts";
import type { Outcome } from "./victim.ts";

const VICTIM = fileURLToPath(new URL("victim.ts", import.meta.url));
const MAX_VALUE_BYTES = 1 << 20;
/** A hundred bytes for each, and the runtime's own for a log that is open: code, caches, garbage not collected yet. */
const MAX_MIB = 100 * MAX_VALUE_BYTES / (1 << 20) + 150;
const LIMIT_MS = 55_000;
const noPeak = process.platform === "linux" ? false : "the peak of a process's memory is read from /proc";

/** A small log: two threads, a patch at position 3. */
async function innocent(path: string): Promise<void> {
  await using log = await openLog(path, { durability: "normal" });
  await log.thread("a").put("k", { list: ["x".repeat(100)] });
  await log.thread("a").append("said", 1, { meta: 1 });
  await log.thread("a").update("k", (draft) => void draft.list.push(1));
  await log.thread("b").put("k", 1);
  await log.thread("a").fork("c");
}

/** Changes copies of a small log, and lets another process read them. */
async function attack(
  folder: string,
  changes: Readonly<Record<string, (path: string) => void>>,
): Promise<Outcome[]> {
  const good = join(folder, "good.db");
  await innocent(good);
  const names = Object.keys(changes);
  const paths = names.map((name, index) => {
    const path = join(folder, `${index}.db`);
    copyFileSync(good, path);
    changes[name]!(path);
    return path;
  });
  const child = start(thisRuntime, VICTIM, [`${MAX_VALUE_BYTES}`, ...paths]);
  const timer = setTimeout(() => child.process.kill("SIGKILL"), LIMIT_MS);
  await allEnd([child]).catch((error) => {
    const name = names[child.lines.length - 1];
    throw new Error(`the process ended, or hung, at ${name}`, { cause: error });
  });
  clearTimeout(timer);
  const [base, ...outcomes] = child.lines.map((line) => JSON.parse(line) as Outcome);
  const unknown: string[] = [];
  for (const [index, { untyped, peakMib }] of outcomes.entries()) {
    for (const error of untyped) unknown.push(`${names[index]}: ${error}`);
    const took = peakMib - base!.peakMib;
    assert.ok(took < MAX_MIB, `${names[index]} took ${took} MiB`);
  }
  assert.deepEqual(unknown, []);
  report({ part: "hostile", name: `${names[0]} and others`, states: names.length, bad: 0 });
  return outcomes;
}

/** Runs a statement with values on a file. */
function change(sql: string, ...values: (string | number | Uint8Array | null)[]): (path: string) => void {
  return (path) => {
    const connection = rawConnection(path);
    try {
      connection.prepare(sql).run(...values);
    } finally {
      connection.close();
    }
  };
}

describe("hostile files", { skip: noPeak }, () => {
  it(
    "with crafted values",
    inFolder(async (folder) => {
      const changes: Record<string, (path: string) => void> = {};
      for (const [name, value] of Object.entries(VALUES)) {
        changes[`value: ${name}`] = change("UPDATE events SET value = ? WHERE position IN (1, 2)", value);
        changes[`meta: ${name}`] = change("UPDATE events SET meta = ?", value);
        changes[`operations: ${name}`] = change("UPDATE events SET value = ? WHERE position = 3", value);
      }
      const outcomes = await attack(folder, changes);
      assert.ok(outcomes.filter(({ typed }) => typed.length > 0).length > outcomes.length * 0.7);
    }),
  );

  it(
    "with crafted payloads, deltas and patches",
    inFolder(async (folder) => {
      const changes: Record<string, (path: string) => void> = {};
      for (const [name, { packing, value }] of Object.entries(payloads())) {
        const sql =
          "UPDATE events SET packing = ?, form = NULL, base = NULL, state = NULL, value = ? WHERE position = 3";
        changes[name] = change(sql, packing, value);
      }
      const operations: Record<string, unknown> = {
        "a path, 100,000 deep": [{ op: "add", path: "/list".repeat(100_000), value: 1 }],
        "the prototype": [{ op: "add", path: "/__proto__/polluted", value: 1 }],
        "the constructor": [{ op: "add", path: "/constructor/prototype/polluted", value: 1 }],
        "no operations": { op: "add" },
        "operations of other kinds": [null, 7, { op: "copy", from: "", path: "/list/-" }, { op: "eval", path: "" }],
        "an index beyond all": [{ op: "add", path: "/list/4294967294", value: 1 }],
        "10,000 operations": Array.from({ length: 10_000 }, () => ({ op: "add", path: "/list/0", value: 1 })),
      };
      for (const [name, value] of Object.entries(operations)) {
        changes[name] = change("UPDATE events SET value = ? WHERE position = 3", msgpack.encode(value));
      }
      changes["a patch on itself"] = change("UPDATE events SET base = 3 WHERE position = 3");
      changes["a patch on what comes later"] = change("UPDATE events SET base = 4 WHERE position = 3");
      await attack(folder, changes);
    }),
  );

  it(
    "with cells of other types, and numbers beyond all",
    inFolder(async (folder) => {
      const changes: Record<string, (path: string) => void> = {};
      const odd = [null, -1, 0.5, Number.MAX_SAFE_INTEGER, "text", new Uint8Array(3)];
      const columns = [
        "thread",
        "version",
        "time",
        "latest",
        "type",
        "key",
        "id",
        "schema",
        "form",
        "base",
        "packing",
        "link",
      ];
      for (const column of columns) {
        for (const value of odd) {
          changes[`events.${column} = ${value}`] = (path) => {
            try {
              change(`UPDATE events SET ${column} = ? WHERE position = 3`, value)(path);
            } catch {
              // The schema does not take it.
            }
          };
        }
      }
      for (
        const [table, column] of [
          ["threads", "parent"],
          ["threads", "erased"],
          ["threads", "created"],
          ["threads", "tombstone"],
          ["bases", "origin_position"],
          ["bases", "origin_thread"],
        ]
      ) {
        for (const value of [-1, 2 ** 40]) {
          changes[`${table}.${column} = ${value}`] = change(`UPDATE ${table} SET ${column} = ?`, value);
        }
      }
      changes["a thread that is its own parent"] = change("UPDATE threads SET parent = id, parent_version = 1");
      changes["a base on itself"] = change("UPDATE bases SET origin_thread = thread, origin_position = position");
      await attack(folder, changes);
    }),
  );

  it(
    "of noise",
    inFolder(async (folder) => {
      const random = seeded(seed);
      const noise = (length: number) => Uint8Array.from({ length }, () => Math.floor(random() * 256));
      const changes: Record<string, (path: string) => void> = {};
      for (let n = 0; n < runs(6); n++) {
        changes[`noise ${n}`] = (path) => writeFileSync(path, noise(Math.floor(random() * 20_000)));
        changes[`noise behind a header ${n}`] = (path) => {
          const header = new TextEncoder().encode("SQLite format 3\0");
          writeFileSync(path, [header, noise(20_000)].reduce((a, b) => new Uint8Array([...a, ...b])));
        };
        changes[`a WAL of noise ${n}`] = (path) => writeFileSync(`${path}-wal`, noise(50_000));
      }
      await attack(folder, changes);
    }),
  );
});

describe("hostile arguments", () => {
  it("are taken or refused by typed errors, whatever they are", async () => {
    const random = seeded(seed);
    await using log = await openLog(":memory:", { maxValueBytes: 1 << 16 });
    await log.thread("a").put("k", { n: 1 });
    const cyclic: unknown[] = [];
    cyclic.push(cyclic);
    let deep: unknown = 1;
    for (let n = 0; n < 5000; n++) deep = [deep];
    const trap = new Proxy({}, {
      get: () => {
        throw new Error("looked at");
      },
      ownKeys: () => {
        throw new Error("listed");
      },
      getPrototypeOf: () => {
        throw new Error("asked");
      },
    });
    const { proxy, revoke } = Proxy.revocable([], {});
    revoke();
    const odd: readonly unknown[] = [
      undefined,
      null,
      NaN,
      -1,
      2 ** 60,
      1n << 70n,
      "",
      "\0",
      "\ud800",
      "x".repeat(5000),
      "__proto__",
      "@1",
      [],
      [[]],
      ["a", ""],
      new Array(40).fill("a"),
      new Array(1e6),
      {},
      { length: 2 ** 53 },
      Object.create(null),
      cyclic,
      deep,
      trap,
      proxy,
      () => {},
      Symbol("s"),
      new Date(NaN),
      /a/,
      new Map([[{}, 1]]),
      new Proxy(class {}, {}),
      {
        get thread() {
          throw new Error("read");
        },
      },
      { then: () => {} },
      new Uint8Array(1 << 17),
      { toJSON: () => 1 },
      { position: -1 },
      { version: 0.5 },
      { op: "add", path: "/__proto__/polluted", value: 1 },
      new AggregateError([]),
    ];
    // deno-lint-ignore no-explicit-any
    const pick = (): any => odd[Math.floor(random() * odd.length)];
    const thread = log.thread("a");
    const calls: readonly (() => unknown)[] = [
      () => log.thread(pick()).put(pick(), pick(), pick()),
      () => thread.put(pick(), pick()),
      () => thread.append(pick(), pick(), pick()),
      () => thread.update("k", () => pick(), pick()),
      () => thread.get(pick()),
      () => thread.at(pick()).get("k"),
      () => thread.fork(pick(), pick()),
      () => thread.restore(pick(), pick()),
      () => thread.diff(pick(), pick()).next(),
      () => thread.blame(pick(), pick()),
      () => all(thread.entries(pick())),
      () => all(thread.replay(pick())),
      () => all(log.read(pick())),
      () => all(log.threads(pick())),
      () => log.at(pick()).thread(pick()).get("k"),
      () => log.subscribe(pick()).return?.(),
      () => log.batch((batch) => batch.thread(pick()).put(pick(), pick(), pick())),
      () => log.project(pick()),
      () => log.backup(pick()),
      () => apply(pick(), pick()),
      () => openLog(pick(), pick()),
    ];
    for (let n = 0; n < runs(2000); n++) {
      const call = calls[n % calls.length]!;
      try {
        const result = await call();
        if (call === calls.at(-1)) await (result as { close(): Promise<void> }).close();
      } catch (error) {
        const isTyped = error instanceof ThreadlogError;
        assert.ok(isTyped, `seed ${seed}, call ${n}, ${call}: ${String((error as Error)?.stack ?? error)}`);
      }
    }
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
    assert.ok((await log.verify()).ok);
  });
});
