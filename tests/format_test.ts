/**
 * docs/format.md is true: a reader that was written from that page alone (support/format_reader.mjs) shows what the
 * library shows, of files with everything in them and of random ones.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import fc from "fast-check";
import { type Log, msgpack, openLog, type OpenOptions, type ThreadId, type Upcaster } from "../mod.ts";
import { applyDelta, decode, type LogFile, readLogFile } from "./support/format_reader.mjs";
import { all, inFolder, onFile, rawConnection, rawSql, seeded } from "./support/scratch.ts";
import { runs, seed } from "./support/seed.ts";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
const unhex = (text: string) => new Uint8Array(Buffer.from(text.replaceAll(/\s/g, ""), "hex"));

// ---- the two, held against each other

/** Something that differs wherever two values do: the codec's bytes tell apart all that it can store. */
function shown(value: unknown): string {
  return hex(msgpack.encode(value));
}

interface Eventlike {
  readonly position: number;
  readonly thread: ThreadId;
  readonly version: number;
  readonly time: number;
  readonly type: string;
  readonly key?: string | undefined;
  readonly id: string;
  readonly value: unknown;
  readonly meta: unknown;
}

interface FileThread {
  readonly number: number;
  readonly id: ThreadId;
  readonly erased: number;
  readonly last: number;
}

function eventLine(event: object): string {
  const { position, thread, version, time, type, key, id, value, meta } = event as Eventlike;
  return `${position} ${JSON.stringify([thread, version, time, type, key, id])} ${shown([value, meta])}`;
}

function entryLine(entry: object | undefined): string {
  if (entry === undefined) return "no entry";
  const { key, value, version, position, time, id, meta } = entry as Eventlike;
  return `${JSON.stringify([key, version, position, time, id])} ${shown([value, meta])}`;
}

/** Holds a file against its log: every event, and every thread at every `stride`-th version and the last. */
async function agree(log: Log, path: string, stride = 1): Promise<LogFile> {
  const file = readLogFile(path);
  assert.deepEqual(file.verify(), []);
  assert.deepEqual(file.events().map(eventLine), (await all(log.read())).map(eventLine));
  const threads: readonly FileThread[] = file.threads();
  const listed = threads.filter(({ erased, last }) => erased === 0 || last > erased + 1);
  assert.deepEqual(listed.map(({ id }) => id), (await all(log.threads())).map(({ thread }) => thread));
  for (const { number, id, erased, last } of threads) {
    const thread = log.thread(id);
    const { version, position } = await thread.head();
    const history = file.history(number);
    assert.deepEqual([last, history.at(-1)?.position], [version, position], `the head of ${id}`);
    assert.deepEqual(history.map(eventLine), (await all(thread.replay())).map(eventLine), `the history of ${id}`);
    for (let at = last; at > erased; at = at > erased + stride ? at - stride : Math.min(at - 1, erased + 1)) {
      const place = `${JSON.stringify(id)} at ${at}`;
      const view = thread.at(at);
      const entries = (await all(view.entries())).map(entryLine);
      assert.deepEqual(file.stateByFold(number, at).map(entryLine), entries, `${place}, by a fold`);
      assert.deepEqual(file.stateByBases(number, at).map(entryLine), entries, `${place}, by lookups`);
      assert.equal(entryLine(file.latest(number, at)), entryLine(await view.latest()), `${place}, the latest`);
    }
  }
  return file;
}

// ---- a log with everything in it

function fixed<E extends Error>(error: E, properties: object = {}): E {
  Object.defineProperty(error, "stack", { value: "at line 1", configurable: true, writable: true });
  return Object.assign(error, properties);
}

const VALUES: Record<string, unknown> = {
  nothing: [null, undefined, { there: undefined }],
  booleans: [true, false],
  integers: [
    0,
    1,
    127,
    128,
    255,
    256,
    65_535,
    65_536,
    2 ** 32 - 1,
    -1,
    -32,
    -33,
    -128,
    -129,
    -32_768,
    -32_769,
    -(2 ** 31),
  ],
  floats: [-0, 0.5, NaN, Infinity, -Infinity, 2 ** 32, -(2 ** 31) - 1, 5e-324, Number.MAX_VALUE],
  bigints: [
    0n,
    -1n,
    2n ** 63n - 1n,
    -(2n ** 63n),
    2n ** 63n,
    2n ** 64n - 1n,
    2n ** 64n,
    -(2n ** 63n) - 1n,
    -(2n ** 500n),
  ],
  strings: [
    "",
    "a",
    "é日🧵",
    "\0\x01",
    "\ufeffbom",
    "x".repeat(31),
    "x".repeat(32),
    "ü".repeat(200),
    "y".repeat(70_000),
  ],
  bytes: [new Uint8Array(0), new Uint8Array([0, 255]), new Uint8Array(300).fill(7), new Uint8Array(70_000).fill(8)],
  arrays: [[], [[]], new Array(16).fill(1), new Array(70_000).fill(null)],
  objects: [
    {},
    { b: 1, a: { "": null }, 10: 2, "": 3 },
    JSON.parse('{ "__proto__": 1, "constructor": { "__proto__": 2 } }'),
    Object.fromEntries(Array.from({ length: 70_000 }, (_, i) => [`k${i}`, i])),
  ],
  dates: [0, 1, -1, 1_667_476_703_123, 2 ** 32 * 1000, 2 ** 34 * 1000 - 1, 2 ** 34 * 1000, 8.64e15, -8.64e15].map((
    time,
  ) => new Date(time)),
  maps: [
    new Map(),
    new Map<unknown, unknown>([[{ a: 1 }, new Map([[1n, NaN]])], [undefined, null], ["b", 1], ["a", 2]]),
  ],
  sets: [new Set(), new Set<unknown>([new Set(), 1, 1n, "1", undefined])],
  buffers: [
    new Uint8Array([1, 2, 3]).buffer,
    new DataView(new Uint8Array([1, 2, 3]).buffer),
    new Int8Array([-1]),
    new Uint8ClampedArray([255]),
    new Int16Array([-2, 258]),
    new Uint16Array([65_534]),
    new Int32Array([-3]),
    new Uint32Array([2 ** 32 - 2]),
    new Float32Array([0.5, -0]),
    new Float64Array([0.1]),
    new BigInt64Array([-1n]),
    new BigUint64Array([2n ** 64n - 1n]),
    new Float64Array(0),
  ],
  patterns: [/a\/b/gi, new RegExp("")],
  errors: [
    fixed(new TypeError("no", { cause: fixed(new Error("deep")) }), { code: 7, name: "Mine" }),
    fixed(new AggregateError([fixed(new RangeError("one")), "two"], "all")),
    ...[EvalError, ReferenceError, SyntaxError, URIError].map((Type) => fixed(new Type("e"))),
  ],
};

async function fill(path: string, options: OpenOptions): Promise<void> {
  await using log = await openLog(path, options);
  const random = seeded(21);
  const noise = (length: number) => Array.from({ length }, () => Math.floor(random() * 36).toString(36)).join("");

  const values = log.thread("values");
  for (const [key, value] of Object.entries(VALUES)) await values.put(key, value);
  await values.append("all of them", VALUES, { id: "all", meta: VALUES });
  await values.append("none", undefined);

  const names = log.thread(["users", "a/b", "\0", "\x01\0\x01", "", "🧵"]);
  for (const key of ["", "\0", "a", "a\0", "ab", "a\x01", "B", "é", "\uffff", "🧵", "__proto__", "10", "9"]) {
    await names.put(key, key, { id: `put ${key}`, meta: { key } });
  }
  await names.append("🧵 type\0", 1, { id: "🧵" });
  await log.thread("").put("k", 1);
  await log.thread(["", ""]).put("k", 2);

  const edits = log.thread("edits");
  const [text, long] = [noise(3000), noise(20_000)];
  await edits.put("list", [{ text: noise(600) }]);
  for (let i = 0; i < 40; i++) {
    await edits.update("list", (draft: unknown[]) => {
      if (i % 7 === 3) draft.splice(1, 1);
      else if (i % 7 === 5) draft[0] = { i, ["a/b~c"]: new Map([[i, undefined]]), "": { at: new Date(i) } };
      else draft.push({ text: noise(200), i });
    });
    await edits.put("copy", [text, i]);
    await edits.put("large", { i, text: long.slice(0, 19_900 + i), words: "to and fro ".repeat(i % 5 ? 2000 : 1) });
  }
  await edits.update("list", () => "anything else");
  await edits.update("new", () => ({ from: "initial" }), { initial: null });
  await edits.put("counter", { n: 0, text: noise(2000) });
  for (let i = 0; i < 100; i++) await edits.update("counter", (draft: { n: number }) => void draft.n++);
  const words = Array.from({ length: 1200 }, (_, i) => `word ${i}`).join();
  await edits.put("large", { text: long });
  await edits.put("large", { text: long, words });
  await edits.append("long", "a note ".repeat(3000));
  await log.batch((batch) => {
    const inBatch = batch.thread("edits");
    inBatch.put("batched", { a: [1] });
    inBatch.update("batched", (draft) => void draft.a.push(2));
    inBatch.delete("copy");
    inBatch.delete("was never there");
    batch.thread("another").append("note", 1);
  });

  const fork = await edits.fork(["forks", "1"], { at: 30, id: "forked", meta: "why" });
  await fork.update("list", (draft: unknown[]) => void draft.push("in the fork"));
  await fork.delete("large");
  const second = await fork.fork(["forks", "2"]);
  await second.put("copy", "in the second fork");
  await fork.fork(["forks", "3"], { at: 10 });
  await second.restore(20);
  await second.put("copy", "after a restore");
  await second.restore(31, { id: "again" });
  await second.restore(0);
  await second.put("only", 1);
  await second.fork(["forks", "4"]);
  await edits.fork(["forks", "5"], { at: 0 });
  await edits.fork(["forks", "of all"]);

  // What forks share of it stays; the rest goes.
  await edits.erase({ meta: "on request", scrub: false });
  await edits.put("list", "after the tombstone");
  await edits.fork(["forks", "of the erased"]);
  await edits.erase({ scrub: false });
  await fork.erase({ scrub: false });
  await log.thread("another").erase();
}

/** Reads values of an earlier shape as they are. */
const same: Upcaster = { type: "set", from: 1, upcast: (value) => value };

describe("a file with everything in it", () => {
  for (const driver of "Bun" in globalThis ? ["bun:sqlite", "node:sqlite"] as const : ["node:sqlite"] as const) {
    it(
      `is read from its description (${driver})`,
      inFolder(async (folder) => {
        const path = join(folder, "a.db");
        const options = { durability: "normal", driver } as const;
        await fill(path, options);
        {
          await using log = await openLog(path, options);
          const file = await agree(log, path, 17);
          const { number } = (file.threads() as FileThread[]).find(({ id }) => id === "values")!;
          const state = file.stateByFold(number) as { key: string; value: unknown }[];
          const found = Object.fromEntries(state.map(({ key, value }) => [key, value]));
          for (const [key, value] of Object.entries(VALUES)) assert.equal(shown(found[key]), shown(value), key);
        }
        const missing = Object.entries(countKinds(path)).filter(([, count]) => count === 0);
        assert.deepEqual(missing, [], "there are all kinds");
        {
          await using log = await openLog(path, { ...options, upcasters: [same] });
          await log.thread(["forks", "2"]).update("only", (value: number) => value + 1);
          await log.thread(["forks", "2"]).put("of the new schema", 1);
          await agree(log, path, 17);
        }
      }),
    );
  }
});

/** How often there is what a reader could trip over. */
function countKinds(path: string): Record<string, number> {
  const connection = rawConnection(path);
  try {
    const count = (where: string) => connection.prepare(`SELECT count(*) AS n FROM events WHERE ${where}`).get()!.n;
    return Object.fromEntries(
      [
        "packing = 0",
        "packing > 0 AND form IS NULL",
        "packing > 0 AND form = 1",
        "packing < 0",
        "form = 1 AND state IS NULL",
        "form = 1 AND state IS NOT NULL AND base IS NULL",
        "form = 1 AND state IS NOT NULL AND base IS NOT NULL",
        "typeof(type) = 'blob'",
        ...[0, 1, 2, 3, 4, 5].map((type) => `type = ${type}`),
      ].map((where) => [where, count(where) as number]),
    );
  } finally {
    connection.close();
  }
}

// ---- random ones

const HOWS = ["put", "update", "delete", "append", "fork", "restore", "erase"] as const;
const step = fc.record({
  how: fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom("put" as const, "update" as const) },
    { weight: 5, arbitrary: fc.constantFrom(...HOWS) },
  ),
  thread: fc.nat(),
  key: fc.constantFrom("a", "a\0", "é"),
  n: fc.nat(600),
  text: fc.string({ maxLength: 10, unit: "grapheme" }),
  id: fc.option(fc.string({ minLength: 1, maxLength: 5, unit: "binary" }), { nil: undefined, freq: 5 }),
  meta: fc.option(fc.jsonValue({ maxDepth: 1 }), { nil: undefined, freq: 5 }),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

function changedValue(value: unknown, { n, text }: Step): unknown {
  const list = Array.isArray(value) ? value : [];
  const message = { id: n, text: text.repeat(1 + n % 30), when: new Date(n) };
  switch (n % 8) {
    case 0:
      return [];
    case 1:
      return new Map<unknown, unknown>([[text, n], ["list", list]]);
    case 2:
      return list.slice(1);
    case 3:
      return [...list, "words ".repeat(n * 5)];
    case 4:
      return [message, ...list.slice(1)];
    default:
      return [...list, message];
  }
}

/** Performs a history over a few threads. */
async function perform(log: Log, steps: readonly Step[]): Promise<void> {
  const names: ThreadId[] = ["t", ["t", "\0"]];
  for (const [index, one] of steps.entries()) {
    const { how, key, n, meta } = one;
    const thread = log.thread(names[one.thread % names.length]!);
    const id = one.id === undefined || one.id.startsWith("@") ? undefined : `${index} ${one.id}`;
    const { version } = await thread.head();
    const { value: first } = await thread.replay({ limit: 1 }).next();
    const low = first?.version ?? 1;
    const at = low + n % Math.max(1, version - low + 1);
    const before = await thread.get(key);
    const after = changedValue(before, one);
    if (how === "put") await thread.put(key, after, { id, meta });
    else if (how === "update") await thread.update(key, () => after, { initial: null, id, meta });
    else if (how === "delete") await thread.delete(key, { id, meta });
    else if (how === "append") await thread.append(`type ${one.text}`, after, { id, meta });
    else if (how === "erase") await thread.erase({ meta, scrub: false });
    else if (version === 0) continue;
    else if (how === "restore") await thread.restore(n % 9 ? at : 0, { id, meta });
    else {
      const name = ["fork", String(index)];
      await thread.fork(name, { at: n % 9 ? at : 0, id, meta });
      names.push(name);
    }
  }
}

describe("any history", () => {
  it(
    "is read from its description, at every version of every thread",
    inFolder(async (folder) => {
      let count = 0;
      const property = fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 50 }), async (steps) => {
        const path = join(folder, `${count++}.db`);
        await using log = await openLog(path, { durability: "normal" });
        await perform(log, steps);
        await agree(log, path);
      });
      await fc.assert(property, { numRuns: runs(30), seed });
    }),
  );

  it(
    "is read as well while erased events are still in the file",
    inFolder(async (folder) => {
      let count = 0;
      let hidden = 0;
      const property = fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 50 }), async (steps) => {
        const path = join(folder, `${count++}.db`);
        {
          await using log = await openLog(path, { durability: "normal" });
          await perform(log, steps);
          // As if the process died after the tombstones, before it removed anything.
          rawSql(path, "CREATE TRIGGER keep BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'kept'); END");
          await log.erase(count % 2 ? "t" : ["fork"], { scrub: false }).catch(() => {});
        }
        await using log = await openLog(path, { readOnly: true });
        const file = await agree(log, path);
        if (file.rowCount > file.events().length) hidden++;
      });
      await fc.assert(property, { numRuns: runs(20), seed });
      assert.ok(hidden > 0, "some rows are not shown");
    }),
  );
});

describe("the reader", () => {
  it("decodes the golden bytes", () => {
    const golden: { name: string; hex: string }[] = JSON.parse(
      readFileSync(new URL("./golden/codec.json", import.meta.url), "utf8"),
    );
    assert.ok(golden.length > 20);
    for (const { name, hex: bytes } of golden) assert.equal(shown(decode(unhex(bytes))), bytes, name);
  });

  it(
    "finds what was changed, of what the chain covers and of what it does not",
    inFolder(async (folder) => {
      for (
        const change of [
          "events SET value = X'05' WHERE position = 1",
          "events SET time = time - 1 WHERE position = 1",
          "events SET key = X'6c00' WHERE position = 1",
          "events SET meta = X'c0' WHERE position = 2",
          "events SET schema = 2 WHERE position = 2",
          "bases SET origin_position = 2 WHERE position = 4",
          "bases SET origin_thread = 0 WHERE position = 4",
          "threads SET parent_version = 1 WHERE parent IS NOT NULL",
        ]
      ) {
        const path = join(folder, "a.db");
        await using log = await openLog(path, { durability: "normal" });
        if (await log.head() === 0) {
          const thread = log.thread("t");
          for (const n of [1, 2, 3]) await thread.put("k", n);
          await thread.restore(1);
          await thread.fork("f", { at: 2 });
        }
        assert.deepEqual(readLogFile(path).verify(), []);
        await log.backup(join(folder, `${change}.db`));
        rawSql(join(folder, `${change}.db`), `UPDATE ${change}`);
        const faults = () => readLogFile(join(folder, `${change}.db`)).verify();
        assert.ok(throws(faults) || faults().length > 0, change);
      }
    }),
  );

  it(
    "reads the values of another codec, given its decoder",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const codec = {
        name: "json",
        encode: (value: unknown) => new TextEncoder().encode(JSON.stringify(value)),
        decode: (bytes: Uint8Array) => JSON.parse(new TextDecoder().decode(bytes)),
      };
      await using log = await openLog(path, { durability: "normal", codec });
      const thread = log.thread("t");
      await thread.put("k", { list: ["a"] });
      await thread.update("k", (draft: { list: string[] }) => void draft.list.push("b"));
      await thread.restore(1, { meta: { why: 1 } });
      await thread.fork("f", { at: 2 });
      const file = readLogFile(path);
      assert.throws(() => file.events(), /json/);
      file.decode = codec.decode;
      assert.deepEqual(file.verify(), []);
      assert.deepEqual(file.events().map(eventLine), (await all(log.read())).map(eventLine));
      assert.deepEqual(file.stateByBases(2).map(entryLine), (await all(log.thread("f").entries())).map(entryLine));
    }),
  );
});

function throws(action: () => unknown): boolean {
  try {
    action();
    return false;
  } catch {
    return true;
  }
}

describe("docs/format.md", () => {
  const page = readFileSync(new URL("../docs/format.md", import.meta.url), "utf8");

  it(
    "names every table and column that there is",
    onFile((_, path) => {
      const connection = rawConnection(path);
      try {
        const tables = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
        for (const { name } of tables) {
          const isNamed = page.includes(`**${name}**:`);
          assert.ok(isNamed || page.includes(`\`${name}\``), `the table ${name}`);
          if (!isNamed) continue;
          const columns = connection.prepare(`SELECT name, type FROM pragma_table_info('${name}')`).all();
          for (const column of columns) {
            assert.ok(page.includes(`\`${column.name}\``), `the column ${column.name} of ${name}`);
            const row = new RegExp(`^\\| \`${column.name}\` ${column.type} +\\|`, "m");
            if (["threads", "events"].includes(String(name)) && column.type !== "") assert.match(page, row);
          }
        }
        for (const { name } of connection.prepare("SELECT name FROM meta").all()) {
          assert.ok(page.includes(`\`${name}\``), `${name} of meta`);
        }
      } finally {
        connection.close();
      }
    }),
  );

  it(
    "shows what the library writes",
    onFile(async (log, path) => {
      const thread = log.thread("order-7");
      await thread.put("plan", { step: 1 });
      await thread.update("plan", (draft: { step: number }) => void (draft.step = 2));
      const connection = rawConnection(path);
      const [first, second] = connection.prepare("SELECT * FROM events ORDER BY position").all();
      const [{ path: name }] = connection.prepare("SELECT path FROM threads").all() as [{ path: Uint8Array }];
      connection.close();
      for (const bytes of [name, first!.key, first!.value, first!.link, second!.value]) {
        assert.ok(page.includes(`\`${hex(bytes as Uint8Array)}\``), hex(bytes as Uint8Array));
      }
      assert.ok(page.includes(String(first!.time)));
      assert.deepEqual([second!.type, second!.form, second!.base], [1, 1, 1]);
    }, { durability: "normal", now: () => 1_767_225_600_000 }),
  );

  it("shows a delta and a digest as they are", async () => {
    const [digest, delta] = [...page.matchAll(/```text\n(.*?)```/gs)].map(([, text]) => text!);
    const { createHash } = await import("node:crypto");
    const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest();
    const place = unhex("0000000000000001 0000000000000001" + (1_767_225_600_000).toString(16).padStart(16, "0"));
    const link = sha256(Buffer.concat([new Uint8Array(32), sha256(unhex(digest!)), place]));
    assert.ok(page.includes(link.toString("hex")));

    const bytes = unhex(delta!.split("\n").map((line) => line.slice(0, 20)).join(""));
    assert.equal(bytes.length, 14);
    const letters = "abcdefgh".repeat(20);
    const base = msgpack.encode(letters + "x".repeat(100));
    assert.equal(hex(applyDelta(base, bytes)), hex(msgpack.encode(`${letters}y${"x".repeat(100)}`)));
  });
});
