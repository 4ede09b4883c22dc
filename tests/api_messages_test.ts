/**
 * What callers get wrong most: misspelt options, hostile objects, paths of other shapes. Each time the error is typed,
 * and its text leads on.
 */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, truncateSync, writeFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import {
  apply,
  applyChanges,
  type Codec,
  defineProjection,
  diff,
  type Log,
  openLog,
  type ThreadlogError,
} from "../mod.ts";
import { all, inFolder, onEach, rawSql, refused } from "./support/scratch.ts";

const json: Codec = {
  encode: (value) => new TextEncoder().encode(JSON.stringify(value)),
  decode: (bytes) => JSON.parse(new TextDecoder().decode(bytes)),
};

/** A proxy of which nothing can be asked. */
function revoked(target: object = []): never {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy as never;
}

function thrower(): never {
  throw new Error("a trap");
}

const evilThen = {
  get then(): never {
    return thrower();
  },
};

/** Every method that takes options, and their names. */
const OPTIONS: readonly [name: string, known: readonly string[], call: (log: Log, options: never) => unknown][] = [
  ["openLog", ["durability", "readOnly", "now"], (_, options) => openLog(":memory:", options)],
  ["put", ["expect", "id", "meta"], (log, options) => log.thread("a").put("k", 2, options)],
  ["update", ["expect", "initial"], (log, options) => log.thread("a").update("k", () => 2, options)],
  ["delete", ["expect"], (log, options) => log.thread("a").delete("k", options)],
  ["append", ["expect"], (log, options) => log.thread("a").append("said", 2, options)],
  ["fork", ["at", "id", "meta"], (log, options) => log.thread("a").fork("f", options)],
  ["restore", ["expect"], (log, options) => log.thread("a").restore(1, options)],
  ["erase", ["meta", "scrub"], (log, options) => log.thread("a").erase(options)],
  ["log.erase", ["meta", "scrub"], (log, options) => log.erase(["a"], options)],
  ["replay", ["from", "to", "limit", "reverse"], (log, options) => all(log.thread("a").replay(options))],
  ["fold", ["to"], (log, options) => log.thread("a").fold(0, (n) => n, options)],
  ["bisect", ["from", "to"], (log, options) => log.thread("a").bisect(() => true, options)],
  ["entries", ["prefix", "after", "limit", "reverse"], (log, options) => all(log.thread("a").entries(options))],
  ["keys", ["prefix", "reverse"], (log, options) => all(log.thread("a").keys(options))],
  ["at().keys", ["prefix"], (log, options) => all(log.thread("a").at(1).keys(options))],
  ["threads", ["prefix", "after", "limit"], (log, options) => all(log.threads(options))],
  ["at().threads", ["prefix"], (log, options) => all(log.at(1).threads(options))],
  ["read", ["after", "to", "prefix", "types", "limit"], (log, options) => all(log.read(options))],
  ["subscribe", ["after", "signal"], (log, options) => log.subscribe(options).next()],
  ["log.diff", ["prefix"], (log, options) => all(log.diff(0, 1, options))],
  ["batch.put", ["expect"], (log, options) => log.batch((batch) => batch.thread("a").put("k", 2, options))],
  ["batch.update", ["initial"], (log, options) => log.batch((b) => b.thread("a").update("k", () => 2, options))],
  ["batch.delete", ["expect"], (log, options) => log.batch((batch) => batch.thread("a").delete("k", options))],
  ["batch.append", ["expect"], (log, options) => log.batch((batch) => batch.thread("a").append("t", 2, options))],
  ["project", ["name", "evolve"], (log, options) => log.project(options)],
  ["defineProjection", ["name", "evolve"], (_, options) => defineProjection(options)],
];

class Options {
  readonly limit = 1;
}

describe("options", () => {
  for (const [name, known, call] of OPTIONS) {
    it(`of ${name} that are unknown, or no plain object, are refused`, async () => {
      await using log = await openLog(":memory:");
      await log.thread("a").put("k", 1);
      const error = await refused("invalid_argument", () => call(log, { colour: undefined } as never));
      assert.match(error.message, /There is no option "colour" \(at \w+\.colour\)/);
      for (const one of known) assert.match(error.remedy!, new RegExp(`\\b${one}\\b`));
      const misspelt = `${known[0]}s`;
      const { remedy } = await refused("invalid_argument", () => call(log, { [misspelt]: 1 } as never));
      assert.match(remedy!, new RegExp(`Did you mean \`${known[0]}\`\\?`));
      for (const options of [[], [1], new Date(), new Options(), new Map(), () => {}, evilThen, revoked({}), "x"]) {
        await refused("invalid_argument", () => call(log, options as never));
      }
      assert.equal(await log.head(), 1);
    });
  }

  it("are named and the nearest is suggested, however long what was given is", async () => {
    await using log = await openLog(":memory:");
    const put = (options: object) => refused("invalid_argument", () => log.thread("a").put("k", 1, options as never));
    assert.match((await put({ expects: 0 })).message, /"expects".*Did you mean `expect`\?/);
    assert.match((await put({ EXPECT: 0 })).message, /Did you mean `expect`\?/);
    assert.ok((await put({ ["x".repeat(100_000)]: 0 })).message.length < 400);
    const { message } = await refused("invalid_argument", () => openLog(":memory:", { readonly: true } as never));
    assert.match(message, /Did you mean `readOnly`\?/);
  });

  it("may come without a prototype, or with what is not theirs hidden", async () => {
    await using log = await openLog(":memory:");
    const bare = Object.assign(Object.create(null), { id: "r1" });
    assert.equal((await log.thread("a").put("k", 1, bare)).id, "r1");
    const hidden = Object.defineProperty({ id: "r2" }, "secret", { value: 1 });
    assert.equal((await log.thread("a").put("k", 1, hidden)).id, "r2");
  });

  it("that are flags are true or false", async () => {
    await using log = await openLog(":memory:");
    const thread = log.thread("a");
    for (const flag of ["no", 0, 1, null, {}]) {
      const reverse = flag as boolean;
      for (const list of [() => thread.replay({ reverse }), () => thread.entries({ reverse })]) {
        assert.equal((await refused("invalid_argument", () => all<unknown>(list()))).place, "options.reverse");
      }
      await refused("invalid_argument", () => all(thread.keys({ reverse })));
      await refused("invalid_argument", () => thread.erase({ scrub: reverse }));
      await refused("invalid_argument", () => openLog(":memory:", { readOnly: reverse }));
    }
    assert.deepEqual(await all(thread.keys({ reverse: undefined as never })), []);
  });

  it("whose getters throw are refused, by name", async () => {
    await using log = await openLog(":memory:");
    for (const name of ["expect", "id", "meta"]) {
      const options = Object.defineProperty({}, name, { enumerable: true, get: thrower });
      const { place } = await refused("invalid_argument", () => log.thread("a").put("k", 1, options));
      assert.equal(place, `options.${name}`);
    }
  });
});

describe("hostile objects", () => {
  onEach("are refused, with nothing written", async (log) => {
    const thread = log.thread("a");
    await thread.put("k", { n: 1 });
    await thread.put("plain", 1);
    const trap = new Proxy([], { get: thrower });
    const calls: [string, () => unknown][] = [
      ["thread id", () => log.thread(revoked())],
      ["thread id in a list", () => log.thread([revoked()])],
      ["list that throws", () => log.thread(trap as never)],
      ["fork id", () => thread.fork(revoked())],
      ["key", () => thread.put(revoked(), 1)],
      ["key read", () => thread.get(revoked({}))],
      ["type", () => thread.append(revoked(), 1)],
      ["event id", () => thread.put("k", 1, { id: revoked() })],
      ["prefix of threads", () => all(log.threads({ prefix: revoked() }))],
      ["prefix of keys", () => all(thread.keys({ prefix: revoked() }))],
      ["prefix to erase", () => log.erase(revoked())],
      ["types", () => all(log.read({ types: revoked() }))],
      ["types that throw", () => all(log.read({ types: trap as never }))],
      ["pointer", () => thread.blame("k", revoked())],
      ["pointer, a function", () => thread.blame("k", revoked(() => {}))],
      ["recipe's result", () => thread.update("k", () => revoked())],
      ["recipe's result for a number", () => thread.update("plain", () => revoked())],
      ["recipe's result, in part", () => thread.update("k", () => ({ n: revoked({}) }))],
      ["what a recipe puts into its draft", () => thread.update("k", (draft) => void (draft.n = { x: revoked({}) }))],
      ["recipe's thenable", () => thread.update("k", () => evilThen)],
      ["initial", () => thread.update("new", (it) => it, { initial: revoked() })],
      ["batch's result", () => log.batch((() => evilThen) as never)],
      ["batch's revoked result", () => log.batch((() => revoked()) as never)],
      ["predicate's result", () => thread.bisect((() => evilThen) as never)],
      ["point", () => thread.at(revoked({})).get("k")],
      ["backup's target", () => log.backup(revoked({}))],
    ];
    for (const [name, call] of calls) {
      await refused(undefined, call).catch((cause) => {
        throw new Error(`${name}: ${cause.message}`, { cause });
      });
    }
    assert.equal(await log.head(), 2);
  });

  it("are refused by apply, diff and applyChanges", async () => {
    const getter = Object.defineProperty({}, "a", { enumerable: true, get: thrower });
    const add = { op: "add", path: "/b", value: 1 } as const;
    const calls: (() => unknown)[] = [
      () => apply(getter, [add]),
      () => apply(revoked({}), [add]),
      () => apply({}, revoked()),
      () => diff({ a: 1 }, getter),
      () => diff({ a: 1 }, revoked({})),
      () => diff(revoked(), []),
      () => applyChanges(new Map(), Object.defineProperty([], Symbol.iterator, { get: thrower })),
      () => applyChanges(new Map(), { [Symbol.iterator]: thrower }),
      () => applyChanges(new Map(), revoked()),
      () => applyChanges(revoked({}), []),
    ];
    for (const call of calls) await refused("invalid_argument", call);
  });

  it("are refused as what a log is opened with", async () => {
    const calls: (() => unknown)[] = [
      () => openLog(revoked({})),
      () =>
        openLog(":memory:", {
          codec: {
            ...json,
            get name() {
              return thrower();
            },
          },
        }),
      () => openLog(":memory:", { codec: revoked({}) }),
      () => openLog(":memory:", { upcasters: revoked() }),
      () => openLog(":memory:", { upcasters: new Proxy([], { get: thrower }) as never }),
    ];
    for (const call of calls) await refused("invalid_argument", call);
  });

  onEach("as a clock cost the append, not the log", async (log) => {
    const error = await refused("invalid_argument", () => log.thread("a").put("k", 1));
    assert.match(error.message, /`now` threw \(at options\.now\)/);
    assert.equal((error.cause as Error).message, "no time");
    assert.equal((await log.thread("a").put("k", 1)).time, 7);
  }, { now: onceFailing() });

  onEach("as an app's own errors pass through as they are", async (log) => {
    await log.thread("a").put("k", { n: 1 });
    const own = new RangeError("mine");
    const fail = () => {
      throw own;
    };
    for (
      const call of [
        () => log.thread("a").update("k", fail),
        () => log.thread("a").bisect(fail),
        () => log.thread("a").bisect(() => Promise.reject(own)),
        () => log.batch(fail),
        () => log.thread("a").fold(0, fail),
      ]
    ) await assert.rejects(async () => await call(), own);
  });

  onEach("as projections that throw in at() are said to", async (log) => {
    await log.thread("a").put("k", 1);
    let broken = false;
    const projection = await log.project({
      name: "p",
      version: 1,
      initial: () => 0,
      evolve: (n: number) => broken ? thrower() : n + 1,
    });
    assert.equal(await projection.at(1), 1);
    broken = true;
    const { message, place } = await refused("schema", () => projection.at(1));
    assert.match(message, /"p" threw in `evolve`/);
    assert.equal(place, 'projection "p", position 1');
  });
});

/** A clock for two logs: fails the first time that it is asked between two appends of each. */
function onceFailing(): () => number {
  let asked = 0;
  return () => {
    if (asked++ % 2 === 0) throw new Error("no time");
    return 7;
  };
}

describe("the path", () => {
  it(
    "may be a file: URL, as text or as a URL, here and of a backup",
    inFolder(async (folder) => {
      const url = pathToFileURL(join(folder, "é #1?.db"));
      {
        await using log = await openLog(url.href);
        await log.thread("a").put("k", 1);
        await log.backup(pathToFileURL(join(folder, "copy.db")));
      }
      for (const target of [url, join(folder, "é #1?.db"), join(folder, "copy.db")]) {
        await using log = await openLog(target, { readOnly: true });
        assert.equal(await log.thread("a").get("k"), 1);
      }
    }),
  );

  it(
    "that names no file is refused, and says what to pass",
    inFolder(async (folder) => {
      const before = readdirSync(".");
      await using log = await openLog(join(folder, "a.db"));
      const targets: [target: string | URL, says: RegExp][] = [
        [":memory", /opened by ":memory:"/],
        [":memory:x", /opened by ":memory:"/],
        ["file:x.db", /Pass the path alone/],
        ["file:/x.db", /Pass the path alone/],
        ["file:///x.db?mode=ro", /no query/],
        ["file:///x.db#1", /no fragment/],
        ["file://host/x.db", /pathToFileURL/],
        ["file:///a%2Fb", /pathToFileURL/],
        ["file:///a%00b", /U\+0000/],
        ["a\0b", /U\+0000/],
        ["a\udfff", /lone surrogate/],
      ];
      for (const [target, says] of targets) {
        for (const call of [() => openLog(target), () => log.backup(target)]) {
          assert.match((await refused("invalid_argument", call)).message, says);
        }
      }
      await refused("unsupported", () => openLog(new URL("https://u:secret@h/")));
      await refused("invalid_argument", () => log.backup(":memory:"));
      assert.deepEqual(readdirSync("."), before);
    }),
  );

  it(
    "that can't be opened is told why, the same on every runtime",
    inFolder(async (folder) => {
      await using log = await openLog(join(folder, "a.db"));
      mkdirSync(join(folder, "directory"));
      writeFileSync(join(folder, "file"), "");
      const targets: [name: string, says: RegExp][] = [
        ["none/a.db", /^The folder .*none does not exist \(at .*a\.db\)\. Create it first/],
        ["directory", /^The path is that of a folder \(at .*directory\)\. Name a file in it\.$/],
        ["file/a.db", /file is not a folder/],
        ["x".repeat(300), /too long/],
        ["x".repeat(5000), /too long/],
      ];
      for (const [name, says] of targets) {
        for (const call of [() => openLog(join(folder, name)), () => log.backup(join(folder, name))]) {
          const { message } = await refused("storage", call);
          assert.match(message, says);
          assert.ok(message.length < 600);
        }
      }
      await refused("storage", () => openLog(join(folder, "directory"), { readOnly: true }));
      // A name that is just short enough.
      await log.backup(join(folder, "x".repeat(250)));
      assert.ok(existsSync(join(folder, "x".repeat(250))));
    }),
  );

  it(
    "relative to the working folder is one, too",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await (await openLog(relative(".", path))).close();
      assert.ok(existsSync(path));
    }),
  );
});

describe("a damaged file", () => {
  const written = async (folder: string): Promise<string> => {
    const path = join(folder, "a.db");
    await using log = await openLog(path);
    for (let i = 0; i < 50; i++) await log.thread("a").put(`k${i}`, "x".repeat(1000));
    return path;
  };

  for (const [name, sql] of [["without", "DELETE FROM meta"], ["with a numeric", "UPDATE meta SET value = 7"]]) {
    it(
      `${name} codec row is corrupt`,
      inFolder(async (folder) => {
        const path = await written(folder);
        rawSql(path, `${sql} WHERE name = 'codec'`);
        for (const readOnly of [false, true]) {
          const { message } = await refused("corrupt", () => openLog(path, { readOnly }));
          assert.match(message, /codec.*table meta.*backup.*salvage\(\)/);
        }
      }),
    );
  }

  for (const table of ["meta", "threads", "events", "versions", "keys", "ids", "bases", "projections"]) {
    it(
      `without its table ${table} is corrupt, and says so`,
      inFolder(async (folder) => {
        const path = await written(folder);
        rawSql(path, `DROP TABLE ${table}`);
        const { message, place } = await refused("corrupt", () => openLog(path));
        assert.match(message, new RegExp(`lost its table ${table} .*backup.*salvage\\(\\)`));
        assert.equal(basename(place!), "a.db");
      }),
    );
  }

  it(
    "that lacks a column or its end names what is left to do, when it is opened",
    inFolder(async (folder) => {
      const path = await written(folder);
      truncateSync(path, 8192);
      assert.match((await refused("corrupt", () => openLog(path))).remedy!, /^Restore it from a backup.*salvage\(\)/);
      mkdirSync(join(folder, "b"));
      const other = await written(join(folder, "b"));
      rawSql(other, "ALTER TABLE projections DROP COLUMN state");
      assert.match((await refused("corrupt", () => openLog(other))).remedy!, /salvage\(\)/);
    }),
  );
});

describe("messages", () => {
  onEach("speak plainly", async (log) => {
    const thread = log.thread("a");
    const said = async (call: () => unknown): Promise<string> => (await refused(undefined, call)).message;
    assert.match(await said(() => thread.put("k", 1, { id: 7 as never })), /^An event id must be a string/);
    assert.match(await said(() => thread.append(7 as never)), /^An event type must be a string/);
    assert.match(await said(() => thread.put(7 as never, 1)), /^A key must be a string.*Pass a key as a string\.$/);
    assert.match(await said(() => thread.append("x".repeat(5000))), /^An event type of 5000 characters/);
    for (
      const call of [
        () => thread.at("1" as never),
        () => log.at("1" as never),
        () => thread.fork("f", { at: "1" as never }),
        () => thread.restore("1" as never),
      ]
    ) assert.doesNotMatch(await said(call), /\(at at\)|\(at restore\)/);
    let deep: unknown = 1;
    for (let i = 0; i < 200; i++) deep = [deep];
    await thread.put("list", []);
    for (const call of [() => thread.put("k", deep), () => thread.update("list", () => [deep])]) {
      assert.match(await said(call), /nested more than 128 deep.*\[0\] \.\.\. .*\[0\]/);
      assert.ok((await said(call)).length < 400);
    }
  });

  onEach("tell an async recipe that recipes are synchronous, and swallow what it throws later", async (log) => {
    const thread = log.thread("a");
    await thread.put("k", { n: 1 });
    await thread.put("plain", 1);
    const recipes: ((draft: { n: number }) => Promise<void>)[] = [
      async (draft) => {
        draft.n = 2;
        await Promise.resolve();
        draft.n = 3; // the draft is over by now: this throws
      },
      async () => await Promise.reject(new Error("late")),
    ];
    for (const recipe of recipes) {
      for (const key of ["k", "plain"]) {
        const { message } = await refused("invalid_argument", () => thread.update(key, recipe as never));
        assert.match(message, /recipes are synchronous/);
      }
    }
    const late = async () => await Promise.reject(new Error("late"));
    assert.match((await refused("invalid_argument", () => log.batch(late as never))).message, /returned a promise/);
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.deepEqual(await thread.get("k"), { n: 1 });
    const both = (draft: { n: number }) => ({ n: draft.n = 5 });
    assert.match((await refused("invalid_argument", () => thread.update("k", both))).message, /and returned a value/);
  });

  onEach("say why an event without a value can't be stored by a codec without undefined", async (log) => {
    for (const call of [() => log.thread("a").append("x"), () => log.thread("a").put("k", undefined)]) {
      const { message } = await refused("unencodable", call);
      assert.match(message, /can't keep `undefined`.*thread "a".*null/);
    }
    await refused("unencodable", () => log.thread("a").put("k", { x: undefined }));
    assert.equal((await log.thread("a").append("x", null)).value, null);
  }, { codec: json });

  onEach("tell a thread that is missing from a version that is", async (log) => {
    const missing = log.thread("none");
    const calls: (() => unknown)[] = [
      () => missing.fork("f"),
      () => missing.fork("f", { at: 0 }),
      () => missing.fork("f", { at: 1 }),
      () => missing.restore(0),
      () => missing.restore(1),
      () => missing.restore(new Date()),
    ];
    for (const call of calls) {
      assert.match((await refused("not_found", call)).message, /^Thread "none" does not exist/);
    }
    await log.thread("a").put("k", 1);
    for (const call of [() => log.thread("a").restore(9), () => log.thread("a").fork("f", { at: 9 })]) {
      assert.match((await refused("not_found", call)).message, /has no version 9/);
    }
  });

  onEach("tell a batch that differs from one whose id was used elsewhere", async (log) => {
    const batch = (note: unknown, k: unknown = 1) =>
      log.batch((steps) => {
        steps.thread("a").put("k", k, { id: "r1" });
        steps.thread("b").append("note", note);
      });
    const events = await batch(1);
    assert.deepEqual(await batch(1), events);
    for (const [note, k] of [[2, 1], [1, 2]]) {
      const error: ThreadlogError = await refused("id_conflict", () => batch(note, k));
      assert.match(error.message, /^The batch differs from the one that was kept under the id "r1"/);
      assert.equal(error.place, note === 2 ? 'thread "b", position 2' : 'thread "a", position 1');
    }
    const longer = () =>
      log.batch((steps) => {
        steps.thread("a").put("k", 1, { id: "r1" });
        steps.thread("b").append("note", 1);
        steps.thread("c").append("note", 1);
      });
    assert.match((await refused("id_conflict", longer)).message, /^The batch differs/);
    const single = () => log.thread("a").put("other", 1, { id: "r1" });
    assert.match((await refused("id_conflict", single)).message, /was used for something else/);
    assert.equal(await log.head(), 2);
  });

  onEach("tell a batch that it was kept, and erased in part", async (log) => {
    const batch = () =>
      log.batch((steps) => {
        steps.thread("a").put("k", 1, { id: "r1" });
        steps.thread("b").append("note", 1);
        steps.thread("c").put("k", 1, { id: "r2" });
      });
    await batch();
    await log.thread("b").erase();
    const { message, place } = await refused("erased", batch);
    assert.match(message, /was kept, and part of it erased since/);
    assert.equal(place, 'thread "b", position 2');
    await log.thread("a").erase();
    await refused("erased", batch);
    assert.equal(await log.head(), 5);
  });

  it(
    "name the event that an upcaster threw on",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      {
        await using log = await openLog(path);
        await log.thread("a").put("k", 1);
        await log.thread("a").append("said", 1);
      }
      const upcasters = ["set", "said"].map((type) => ({ type, from: 1, upcast: thrower }));
      await using log = await openLog(path, { upcasters });
      const set = await refused("schema", () => log.thread("a").get("k"));
      assert.equal(set.place, 'thread "a", position 1, key "k"');
      const said = await refused("schema", () => all(log.read({ types: ["said"] })));
      assert.equal(said.place, 'thread "a", position 2');
      await log.thread("b").put("k", 2);
      await log.close();
      await using older = await openLog(path);
      const newer = await refused("schema", () => older.thread("b").get("k"));
      assert.equal(newer.place, 'thread "b", position 3, key "k"');
    }),
  );
});
