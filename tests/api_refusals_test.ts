/**
 * Bad input: every public method is given what it can't take. Each time a typed error with a code, the place and the
 * remedy; nothing is written; and the log goes on.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { apply, applyChanges, diff, type Log, openLog, ThreadlogError } from "../mod.ts";
import { all, inFolder, onEach, refused } from "./support/scratch.ts";

const hostile = new Proxy({}, {
  get() {
    throw new Error("a trap");
  },
  has() {
    throw new Error("a trap");
  },
  ownKeys() {
    throw new Error("a trap");
  },
  getPrototypeOf() {
    throw new Error("a trap");
  },
});
const throwing = Object.defineProperties(
  {},
  Object.fromEntries(
    [
      "position",
      "version",
      "expect",
      "id",
      "meta",
      "prefix",
      "after",
      "limit",
      "to",
      "from",
      "types",
      "signal",
      "name",
      "at",
    ]
      .map((name) => [name, {
        enumerable: true,
        get() {
          throw new Error("a getter");
        },
      }]),
  ),
);
const huge = "x".repeat(100_000);

const NOT_OBJECTS = [null, 7, "text", true, Symbol("s"), 7n, () => {}];
const NOT_STRINGS = [null, 7, true, Symbol("s"), 7n, {}, () => {}, hostile, throwing];
const NOT_NAMES = [undefined, ...NOT_STRINGS, [], huge, "\ud800"];
const NOT_IDS = [
  undefined,
  ...NOT_STRINGS,
  [],
  [7],
  ["a", undefined],
  [hostile],
  huge,
  "\ud800",
  ["\udfff"],
  Array(40).fill("a"),
];
const NOT_PREFIXES = [...NOT_STRINGS, [7], [null], huge, "\ud800"];
const NOT_POINTS = [null, "1", -1, 1.5, NaN, Infinity, true, Symbol("s"), 7n, {}, [], () => {}, new Date(NaN), hostile];
NOT_POINTS.push(throwing, { position: -1 }, { version: 1.5 }, { position: "1" }, 2 ** 53);
const NOT_LIMITS = [null, -1, 1.5, NaN, "1", true, Symbol("s"), 7n, {}, -Infinity];
const NOT_FUNCTIONS = [undefined, null, 7, "text", {}, Symbol("s"), hostile];
const NOT_EXPECTATIONS = [null, -1, 1.5, NaN, "old", true, Symbol("s"), {}, [], { version: "1" }, hostile, throwing];
const NOT_EVENT_IDS = [...NOT_STRINGS, [], "", "@7", huge, "\ud800"];
const UNSTORABLE = [Symbol("s"), () => {}, hostile, new WeakMap(), "\ud800", Promise.resolve()];
const NOT_TYPES = ["said", 7, null, {}, [7], [""], [null], [Symbol("s")], hostile];

/** What is refused: a name, and a call for each bad value. */
type Sweep = readonly [name: string, values: readonly unknown[], call: (log: Log, bad: never) => unknown];

const writeOptions = (name: string, write: (log: Log, options: never) => unknown): Sweep[] => [
  [`${name}: options`, [...NOT_OBJECTS, hostile, throwing], write],
  [`${name}: expect`, NOT_EXPECTATIONS, (log, expect) => write(log, { expect } as never)],
  [`${name}: id`, NOT_EVENT_IDS, (log, id) => write(log, { id } as never)],
  [`${name}: meta`, UNSTORABLE, (log, meta) => write(log, { meta } as never)],
];

const listOptions = (name: string, list: (log: Log, options: never) => AsyncIterable<unknown>): Sweep[] => [
  [`${name}: options`, [...NOT_OBJECTS, hostile, throwing], (log, options) => all(list(log, options))],
  [`${name}: limit`, NOT_LIMITS, (log, limit) => all(list(log, { limit } as never))],
];

const point = (name: string, call: (log: Log, point: never) => unknown): Sweep => [name, NOT_POINTS, call];

const SWEEPS: readonly Sweep[] = [
  ["log.thread", NOT_IDS, (log, id) => log.thread(id)],
  ["log.at().thread", NOT_IDS, (log, id) => log.at(1).thread(id)],
  ["log.snapshot().thread", NOT_IDS, (log, id) => log.snapshot().thread(id)],
  ["put: key", NOT_NAMES, (log, key) => log.thread("a").put(key, 1)],
  ["put: value", UNSTORABLE, (log, value) => log.thread("a").put("k", value)],
  ...writeOptions("put", (log, options) => log.thread("a").put("k", 1, options)),
  ["update: key", NOT_NAMES, (log, key) => log.thread("a").update(key, () => 1)],
  ["update: recipe", NOT_FUNCTIONS, (log, recipe) => log.thread("a").update("k", recipe)],
  ["update: result", UNSTORABLE, (log, value) => log.thread("a").update("k", () => value)],
  ["update: initial", UNSTORABLE, (log, initial) => log.thread("a").update("new", () => 1, { initial })],
  ...writeOptions("update", (log, options) => log.thread("a").update("k", () => 1, options)),
  ["delete: key", NOT_NAMES, (log, key) => log.thread("a").delete(key)],
  ...writeOptions("delete", (log, options) => log.thread("a").delete("k", options)),
  ["append: type", [...NOT_NAMES, "", "set", "patch", "erase"], (log, type) => log.thread("a").append(type, 1)],
  ["append: value", UNSTORABLE, (log, value) => log.thread("a").append("said", value)],
  ...writeOptions("append", (log, options) => log.thread("a").append("said", 1, options)),
  ["fork: id", NOT_IDS, (log, id) => log.thread("a").fork(id)],
  ["fork: options", [...NOT_OBJECTS, hostile, throwing], (log, options) => log.thread("a").fork("f", options)],
  point("fork: at", (log, at) => log.thread("a").fork("f", { at })),
  ["fork: event id", NOT_EVENT_IDS, (log, id) => log.thread("a").fork("f", { id })],
  point("restore", (log, at) => log.thread("a").restore(at)),
  ...writeOptions("restore", (log, options) => log.thread("a").restore(1, options)),
  ["erase: options", [...NOT_OBJECTS, hostile, throwing], (log, options) => log.thread("a").erase(options)],
  ["erase: meta", UNSTORABLE, (log, meta) => log.thread("a").erase({ meta })],
  ["log.erase", [undefined, ...NOT_PREFIXES], (log, prefix) => log.erase(prefix)],
  ["batch", NOT_FUNCTIONS, (log, fill) => log.batch(fill)],
  ["batch: thread", NOT_IDS, (log, id) => log.batch((b) => b.thread(id).put("k", 1))],
  ["batch: key", NOT_NAMES, (log, key) => log.batch((b) => (b.thread("b").put("k", 1), b.thread("a").put(key, 1)))],
  ["batch: value", UNSTORABLE, (log, v) => log.batch((b) => (b.thread("b").put("k", 1), b.thread("a").put("k", v)))],
  ["batch: type", [...NOT_NAMES, "", "set"], (log, type) => log.batch((b) => b.thread("a").append(type))],
  ["batch: recipe", NOT_FUNCTIONS, (log, recipe) => log.batch((b) => b.thread("a").update("k", recipe))],
  ...writeOptions("batch.put", (log, options) => log.batch((b) => b.thread("a").put("k", 1, options))),
  ...writeOptions("batch.update", (log, options) => log.batch((b) => b.thread("a").update("k", () => 1, options))),
  ...writeOptions("batch.delete", (log, options) => log.batch((b) => b.thread("a").delete("k", options))),
  ...writeOptions("batch.append", (log, options) => log.batch((b) => b.thread("a").append("said", 1, options))),
  ["get", NOT_NAMES, (log, key) => log.thread("a").get(key)],
  ["entry", NOT_NAMES, (log, key) => log.thread("a").entry(key)],
  ["at().get", NOT_NAMES, (log, key) => log.thread("a").at(1).get(key)],
  ...listOptions("entries", (log, options) => log.thread("a").entries(options)),
  ["entries: prefix", NOT_NAMES.slice(1), (log, prefix) => all(log.thread("a").entries({ prefix }))],
  ...listOptions("keys", (log, options) => log.thread("a").keys(options)),
  ["keys: after", NOT_NAMES.slice(1), (log, after) => all(log.thread("a").keys({ after }))],
  point("thread.at", (log, at) => log.thread("a").at(at).get("k")),
  point("log.at", (log, at) => log.at(at).thread("a").get("k")),
  point("thread.diff: from", (log, from) => all(log.thread("a").diff(from, 1))),
  point("thread.diff: to", (log, to) => all(log.thread("a").diff(1, to))),
  point("log.diff: from", (log, from) => all(log.diff(from, 1))),
  point("log.diff: to", (log, to) => all(log.diff(1, to))),
  ["log.diff: options", [...NOT_OBJECTS, hostile, throwing], (log, options) => all(log.diff(0, 1, options))],
  ["log.diff: prefix", NOT_PREFIXES, (log, prefix) => all(log.diff(0, 1, { prefix }))],
  ...listOptions("replay", (log, options) => log.thread("a").replay(options)),
  point("replay: from", (log, from) => all(log.thread("a").replay({ from }))),
  point("replay: to", (log, to) => all(log.thread("a").replay({ to }))),
  ["fold", NOT_FUNCTIONS, (log, evolve) => log.thread("a").fold(0, evolve)],
  ["blame: key", NOT_NAMES, (log, key) => log.thread("a").blame(key)],
  ["blame: pointer", [...NOT_STRINGS, [], "x", "/~"], (log, pointer) => log.thread("a").blame("k", pointer)],
  ["bisect", NOT_FUNCTIONS, (log, predicate) => log.thread("a").bisect(predicate)],
  ["bisect: result", [undefined, null, 1, "x", {}], (log, result) => log.thread("a").bisect(() => result)],
  ["bisect: options", [...NOT_OBJECTS, hostile, throwing], (log, o) => log.thread("a").bisect(() => true, o)],
  point("bisect: from", (log, from) => log.thread("a").bisect(() => true, { from })),
  ...listOptions("read", (log, options) => log.read(options)),
  ["read: prefix", NOT_PREFIXES, (log, prefix) => all(log.read({ prefix }))],
  ["read: types", NOT_TYPES, (log, types) => all(log.read({ types }))],
  point("read: after", (log, after) => all(log.read({ after }))),
  point("read: to", (log, to) => all(log.read({ to }))),
  ["subscribe: options", [...NOT_OBJECTS, hostile, throwing], (log, options) => log.subscribe(options).next()],
  ["subscribe: prefix", NOT_PREFIXES, (log, prefix) => log.subscribe({ prefix }).next()],
  ["subscribe: types", NOT_TYPES, (log, types) => log.subscribe({ types }).next()],
  ["subscribe: signal", [...NOT_OBJECTS, {}, hostile], (log, signal) => log.subscribe({ signal }).next()],
  point("subscribe: after", (log, after) => log.subscribe({ after }).next()),
  ...listOptions("threads", (log, options) => log.threads(options)),
  ["threads: prefix", NOT_PREFIXES, (log, prefix) => all(log.threads({ prefix }))],
  ["threads: after", [...NOT_IDS.slice(1)], (log, after) => all(log.threads({ after }))],
  ["backup", [undefined, ...NOT_STRINGS, "", []], (log, target) => log.backup(target)],
  ["project", [undefined, ...NOT_OBJECTS, {}, hostile, throwing], (log, definition) => log.project(definition)],
];

describe("bad input is refused", () => {
  for (const [name, values, call] of SWEEPS) {
    onEach(`by ${name}`, async (log) => {
      await log.thread("a").put("k", 1);
      for (const [index, value] of values.entries()) {
        const what = `${name}, bad value ${index} (${typeof value})`;
        try {
          const error = await refused(undefined, () => call(log, value as never));
          assert.ok(error.place !== undefined && error.place !== "", `no place: ${error.message}`);
          assert.ok(error.message.length < 1000, "a message of a length that can be read");
        } catch (cause) {
          throw new Error(`${what}: ${(cause as Error).message}`, { cause });
        }
        assert.equal(await log.head(), 1, `${what} wrote something`);
        assert.equal(await log.thread("a").get("k"), 1, what);
      }
      assert.equal((await log.thread("a").put("k", 2)).version, 2);
      assert.equal((await log.verify()).ok, true);
    });
  }

  it(
    "by openLog, before a file is made",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      for (const target of [undefined, ...NOT_STRINGS, "", [], "a\0b"]) {
        const error = await refused(undefined, () => openLog(target as string));
        assert.ok(error.place !== undefined);
      }
      const amounts = [null, -1, 1.5, NaN, "1", true, Symbol("s"), 7n, {}, Infinity].slice(1);
      const bad: Record<string, readonly unknown[]> = {
        durability: [null, "fast", 7, {}, Symbol("s")],
        readOnly: ["yes", 1, {}],
        allowNetworkFilesystem: ["yes", 1],
        codec: [null, {}, 7, { encode() {} }, hostile, { encode: () => 7, decode: () => 7 }, "json"],
        upcasters: [null, {}, "x", [null], [7], [{ type: "t" }], [hostile]],
        now: [null, 7, {}],
        driver: [null, "mysql", 7, {}],
        cacheBytes: amounts,
        maxValueBytes: amounts,
        maxQueue: amounts,
        maxQueueBytes: amounts,
        busyTimeoutMs: amounts,
      };
      for (const [name, values] of Object.entries(bad)) {
        for (const [index, value] of values.entries()) {
          const error = await refused(undefined, () => openLog(path, { [name]: value } as never)).catch((cause) => {
            throw new Error(`${name}, bad value ${index}: ${cause.message}`, { cause });
          });
          assert.ok(error.place !== undefined, `${name} ${index}: no place`);
        }
      }
      for (const options of [...NOT_OBJECTS, hostile]) await refused(undefined, () => openLog(path, options as never));
      assert.equal(existsSync(path), false);
    }),
  );

  it("by apply, diff and applyChanges", async () => {
    const operations = [
      undefined,
      null,
      7,
      {},
      "x",
      [null],
      [7],
      [{}],
      [{ op: "move", path: "" }],
      [hostile],
      [{
        op: "add",
        path: 7,
        value: 1,
      }],
      [{ op: "add", path: "/none/x", value: 1 }],
      [{ op: "remove", path: "/none" }],
      [{ op: "replace", path: "x" }],
    ];
    for (const bad of operations) {
      await refused(undefined, () => apply({ a: 1 }, bad as never));
      await refused(
        undefined,
        () => applyChanges(new Map(), [{ key: "k", kind: "changed", operations: bad as never }]),
      );
    }
    for (const bad of [undefined, null, 7, {}]) await refused(undefined, () => applyChanges(bad as never, []));
    for (const bad of [undefined, null, 7, {}, [null], [7], [{}]]) {
      await refused(undefined, () => applyChanges(new Map(), bad as never));
    }
    assert.equal(diff(1, 1).length, 0);
  });

  onEach("by a closed log, everywhere", async (log) => {
    const thread = log.thread("a");
    await thread.put("k", 1);
    const [snapshot, view, past] = [log.snapshot(), log.at(1), thread.at(1)];
    const projection = await log.project({ name: "p", version: 1, initial: () => 0, evolve: (n: number) => n + 1 });
    await log.close();
    const calls: (() => unknown)[] = [
      () => thread.put("k", 2),
      () => thread.update("k", () => 2),
      () => thread.delete("k"),
      () => thread.append("said", 1),
      () => thread.fork("f"),
      () => thread.restore(1),
      () => thread.erase(),
      () => log.erase("a"),
      () => log.batch((batch) => batch.thread("a").put("k", 2)),
      () => thread.get("k"),
      () => thread.entry("k"),
      () => thread.latest(),
      () => thread.head(),
      () => all(thread.entries()),
      () => all(thread.keys()),
      () => all(thread.replay()),
      () => all(thread.diff(0, 1)),
      () => thread.blame("k"),
      () => thread.bisect(() => true),
      () => past.get("k"),
      () => view.thread("a").get("k"),
      () => all(view.threads()),
      () => all(snapshot.threads()),
      () => snapshot.thread("new").get("k"),
      () => log.head(),
      () => all(log.read()),
      () => all(log.diff(0, 1)),
      () => all(log.subscribe()),
      () => all(log.threads()),
      () => log.project({ name: "q", version: 1, initial: () => 0, evolve: (n: number) => n }),
      () => projection.state(),
      () => projection.at(1),
      () => log.verify(),
      () => log.stats(),
      () => log.backup("/tmp/never.db"),
      () => log.refresh(),
    ];
    for (const call of calls) {
      await refused("closed", call).catch((cause) => {
        throw new Error(`${call}: ${cause.message}`, { cause });
      });
    }
    await log.flush();
    await log.close();
  });

  it("with an error that is an Error, and says what, where and what to do", async () => {
    await using log = await openLog(":memory:");
    const error = await refused("invalid_argument", () => log.thread("a").put("k", 1, { expect: -1 }));
    assert.ok(error instanceof Error && error instanceof ThreadlogError);
    assert.equal(error.name, "ThreadlogError");
    assert.match(error.message, /expect.*\(at .*\)\. .+\.$/s);
  });
});
