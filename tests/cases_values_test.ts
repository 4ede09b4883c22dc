/**
 * Cases A29-A31: what values suffered elsewhere. The codec by itself is tested in codec_test.ts; here it is in a log.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { msgpack, openLog } from "../mod.ts";
import { all, inFolder, nextTurn, onFile, rawConnection, refused, residentMib } from "./support/scratch.ts";

/** Puts bytes of our own in place of what was stored for an event. */
function plant(path: string, position: number, bytes: Uint8Array, column: "value" | "meta" = "value"): void {
  const raw = rawConnection(path);
  try {
    raw.prepare(`UPDATE events SET ${column} = ? WHERE position = ?`).run(bytes, position);
  } finally {
    raw.close();
  }
}

/** An ext 7 (an error) that names a constructor of its own choice. */
function hostileError(name: string): Uint8Array {
  const inner = [msgpack.encode(name), msgpack.encode({ message: "x" }), msgpack.encode({})];
  const size = inner.reduce((sum, part) => sum + part.length, 0);
  return new Uint8Array([0xc7, size, 7, ...inner.flatMap((part) => [...part])]);
}

const WHOLE = msgpack.encode({ text: "hello", list: [1, 2, 3] });

const PAYLOADS: Readonly<Record<string, Uint8Array>> = {
  "an unknown constructor": hostileError("AggregateCalculator"),
  "a global function": hostileError("Function"),
  "an unknown extension": new Uint8Array([0xd4, 99, 0]),
  "a truncated value": WHOLE.subarray(0, WHOLE.length - 2),
  "bytes behind the value": new Uint8Array([...WHOLE, 0xc0]),
  "bad UTF-8": new Uint8Array([0xa2, 0xc3, 0x28]),
  "nothing": new Uint8Array(0),
  "a reserved byte": new Uint8Array([0xc1]),
  "a string longer than the input": new Uint8Array([0xdb, 0xff, 0xff, 0xff, 0xff, 0x61]),
  "a map larger than the input": new Uint8Array([0xdf, 0xff, 0xff, 0xff, 0xff]),
};

function nested(levels: number): Uint8Array {
  const bytes = new Uint8Array(levels * 3);
  for (let i = 0; i < levels; i++) bytes.set([0xdc, 0xff, 0xff], 3 * i);
  return bytes;
}

class Point {
  x = 1;
}

describe("values", () => {
  for (const [name, payload] of Object.entries(PAYLOADS)) {
    it(
      `A29 ${name} in the file is an error that names thread and position; neighbours stay readable`,
      inFolder(async (folder) => {
        const path = join(folder, "a.db");
        {
          await using log = await openLog(path);
          for (const key of ["before", "bad", "after"]) await log.thread(["a", "b"]).put(key, { key });
          await log.thread("other").append("said", { n: 4 }, { meta: { n: 4 } });
        }
        plant(path, 2, payload);
        plant(path, 4, payload, "meta");
        await using log = await openLog(path);
        const thread = log.thread(["a", "b"]);
        const check = async (read: () => unknown, position: number) => {
          const { place } = await refused("undecodable", read);
          assert.match(place!, position === 2 ? /thread "a"\/"b", position 2/ : /thread "other", position 4/);
        };
        await check(() => thread.get("bad"), 2);
        await check(() => thread.entry("bad"), 2);
        await check(() => thread.at(2).latest(), 2);
        await check(() => all(thread.replay()), 2);
        await check(() => all(log.read()), 2);
        await check(() => all(log.read({ after: 2 })), 4);
        await check(() => thread.update("bad", (draft) => void (draft.key = 1)), 2);
        assert.deepEqual(await thread.get("before"), { key: "before" });
        assert.deepEqual(await thread.get("after"), { key: "after" });
        assert.deepEqual(await all(thread.keys()), ["after", "bad", "before"]);
        assert.equal((await all(thread.replay({ from: 3 })))[0]!.position, 3);
        const report = await log.verify();
        assert.deepEqual([report.ok, report.first!.position, report.faults], [false, 2, 2]);
        await thread.put("bad", "whole again");
        assert.equal(await thread.get("bad"), "whole again");
      }),
    );
  }

  it(
    "A30 a bomb of nested headers is an error and takes no memory",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      {
        await using log = await openLog(path);
        await log.thread("a").put("k", 1);
        await log.thread("a").put("l", 2);
      }
      plant(path, 1, nested(24_000));
      await using log = await openLog(path);
      const before = residentMib();
      for (let i = 0; i < 20; i++) await refused("undecodable", () => log.thread("a").get("k"));
      const grown = residentMib() - before;
      assert.ok(grown < 64, `${grown} MiB`);
      assert.equal(await log.thread("a").get("l"), 2);
    }),
  );

  it(
    "A30 an object of 50,000 keys, and one that is nested as deep as allowed, come back",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const wide = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`key ${i}`, i]));
      let deep: unknown = "bottom";
      for (let i = 0; i < 120; i++) deep = i % 2 ? [deep] : { deep };
      {
        await using log = await openLog(path);
        await log.thread("a").put("wide", wide);
        await log.thread("a").put("deep", deep);
        await log.thread("a").update("wide", (draft) => void (draft["key 7"] = "changed"));
      }
      await using log = await openLog(path);
      assert.deepEqual(await log.thread("a").get("wide"), { ...wide, "key 7": "changed" });
      assert.deepEqual(await log.thread("a").get("deep"), deep);
    }),
  );

  it(
    "A30 what is too deep or too big is refused before anything is written, also if an update makes it so",
    onFile(async (log) => {
      const thread = log.thread("a");
      let deep: unknown = "bottom";
      for (let i = 0; i < 24_000; i++) deep = [deep];
      await refused("unencodable", () => thread.put("k", deep));
      await refused("too_large", () => thread.put("k", "x".repeat(20_001)));
      await refused("too_large", () => thread.append("said", null, { meta: "x".repeat(20_001) }));
      assert.equal(await log.head(), 0);
      const branch = (levels: number) => {
        let value: unknown = new Map([["n", 1]]);
        for (let i = 0; i < levels; i++) value = { down: value, pad: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" };
        return value;
      };
      // Beside so much text even a large patch is smaller than the whole.
      await thread.put("deep", { text: "t".repeat(8000), down: branch(100) });
      const error = await refused(undefined, () =>
        thread.update("deep", (draft) => {
          let at = draft;
          while ("down" in at && !(at.down instanceof Map)) at = at.down;
          at.down = branch(100);
        }));
      assert.equal(error.code, "unencodable");
      await thread.put("big", { list: ["x".repeat(15_000)], map: new Map([["k", 1]]) });
      await refused("too_large", () => thread.update("big", (draft) => void draft.list.push("y".repeat(10_000))));
      assert.equal(await log.head(), 2);
      assert.deepEqual((await thread.get("deep")).down, branch(100));
      await thread.put("k", 1);
      assert.equal(await thread.get("k"), 1);
    }, { durability: "normal", maxValueBytes: 20_000 }),
  );

  it(
    "A31 what comes back from the file is what was there live, and that is what was put",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const values: Record<string, unknown> = {
        map: new Map<unknown, unknown>([[1, "one"], ["1", "text"], [{ a: 1 }, [1]], [NaN, -0]]),
        set: new Set([1, "1", { a: 1 }]),
        date: new Date(1667476703001),
        dates: [new Date(-1), new Date(0), new Date(8.64e15)],
        bigint: 2n ** 63n,
        bigints: [0n, -1n, 2n ** 64n, -(2n ** 200n), 2n ** 53n],
        undefined: undefined,
        holder: { a: undefined },
        numbers: [NaN, -0, 0, Infinity, 2 ** 53, 1e-300, -1, 0.1],
        booleans: [false, true, null],
        proto: JSON.parse('{"__proto__": {"polluted": 1}, "constructor": 2}'),
        bytes: new Uint8Array([0, 255]),
        floats: new Float64Array([1.5, -0]),
        pattern: /a+/giu,
        error: new RangeError("too far", { cause: [1] }),
        text: "é\u0000😀\uffff",
        empty: ["", [], {}, new Map(), new Set()],
      };
      const live: Record<string, unknown> = {};
      {
        await using log = await openLog(path);
        for (const [key, value] of Object.entries(values)) {
          await log.thread("a").put(key, value);
          await log.thread("a").append(`said ${key}`, value, { meta: value });
          live[key] = await log.thread("a").get(key);
        }
      }
      await using log = await openLog(path);
      const appended = new Map((await all(log.read())).map((event) => [event.type, event]));
      for (const [key, value] of Object.entries(values)) {
        const reread = await log.thread("a").get(key);
        assert.deepEqual(live[key], value, `${key} live`);
        assert.deepEqual(reread, value, `${key} reopened`);
        assert.deepEqual(appended.get(`said ${key}`)!.value, value, `${key} appended`);
        assert.deepEqual(appended.get(`said ${key}`)!.meta, value, `${key} as meta`);
      }
      assert.ok(Object.is((await log.thread("a").get("numbers"))[1], -0));
      assert.ok("a" in await log.thread("a").get("holder"));
      assert.equal(({} as { polluted?: unknown }).polluted, undefined);
      assert.ok((await all(log.thread("a").keys())).includes("undefined"));
    }),
  );

  const cyclic: { self?: unknown } = {};
  cyclic.self = cyclic;
  const refusals: readonly (readonly [string, unknown, string])[] = [
    ["a function", { list: [1, () => {}] }, "$.list[1]"],
    ["a symbol", { a: { b: Symbol("x") } }, "$.a.b"],
    ["an instance of a class", { points: [new Point()] }, "$.points[0]"],
    ["a cycle", { cyclic }, "$.cyclic"],
    ["a lone surrogate", { a: ["\ud800"] }, "$.a[0]"],
    ["a promise", Promise.resolve(), "$"],
    ["an invalid date", [new Date(NaN)], "$[0]"],
    ["a WeakMap", new Map([["k", new WeakMap()]]), "$"],
    ["a getter that throws", {
      get bad() {
        throw new Error("no");
      },
    }, "$.bad"],
  ];
  for (const [name, value, place] of refusals) {
    it(
      `A31 ${name} is refused with the path to it, and no event is written`,
      onFile(async (log) => {
        const thread = log.thread("a");
        await thread.put("k", { n: 1 });
        for (
          const write of [
            () => thread.put("k", value),
            () => thread.append("said", value),
            () => thread.put("k", 1, { meta: value }),
            // A recipe's own errors are the app's, and a promise is refused as such.
            ...(name === "a promise" || name.startsWith("a getter") ? [] : [
              () => thread.update("k", () => value),
              () => thread.update("k", (draft) => void (draft.deep = value)),
            ]),
            () => thread.update("other", (draft: unknown) => draft, { initial: value }),
            () => log.batch((batch) => (batch.thread("b").put("k", 1), batch.thread("a").put("k", value))),
            () => thread.fork("f", { meta: value }),
            () => thread.restore(1, { meta: value }),
          ]
        ) {
          const error = await refused("unencodable", write);
          assert.ok(error.place?.includes("thread"), error.place);
        }
        assert.ok((await refused("unencodable", () => thread.put("k", value))).place!.startsWith(place));
        assert.equal(await log.head(), 1);
        assert.deepEqual(await thread.get("k"), { n: 1 });
        await thread.update("k", (draft) => void draft.n++);
        assert.deepEqual(await thread.get("k"), { n: 2 });
      }),
    );
  }

  it(
    "A29 a file whose tables hold other types than they should is an error, not a crash",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      {
        await using log = await openLog(path);
        for (const key of ["a", "b", "c"]) await log.thread("t").put(key, key);
      }
      for (
        const change of [
          "version = 'x'",
          "time = 1.5",
          "type = 77",
          "key = 5",
          "value = 'text'",
          "link = 3",
          "packing = 1.5",
          "packing = 2",
        ]
      ) {
        await using log = await openLog(path);
        const raw = rawConnection(path);
        raw.exec(`UPDATE events SET ${change} WHERE position = 2`);
        raw.close();
        await nextTurn();
        const error = await refused(undefined, () => all(log.read()));
        assert.ok(["corrupt", "undecodable"].includes(error.code), `${change}: ${error.code}`);
        assert.match(error.place!, /position 2/, change);
        if (!change.startsWith("version")) assert.equal(await log.thread("t").get("a"), "a");
        const report = await log.verify();
        assert.deepEqual([report.ok, report.first?.position], [false, 2], change);
        const again = rawConnection(path);
        again.exec("DELETE FROM events WHERE position = 2");
        again.exec(
          `INSERT INTO events SELECT 2, thread, 2, time, 2, 0, X'6200', NULL, NULL, NULL, NULL, NULL, link, NULL, X'a162', NULL
           FROM events WHERE position = 1`,
        );
        again.close();
      }
    }),
  );
});
