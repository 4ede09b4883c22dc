/**
 * Cases A01-A09, A11 and A12: what storage did to users elsewhere. A10 is in durability_test.ts.
 */
import { randomBytes } from "node:crypto";
import assert from "node:assert/strict";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { openLog } from "../mod.ts";
import { msgpack } from "../log/msgpack.ts";
import { codecId } from "../log/codec.ts";
import { isOlder, warnOfOldSqlite } from "../backends/sqlite/engine_version.ts";
import { SqliteBackend } from "../backends/sqlite/sqlite_backend.ts";
import { allEnd, mixed, noOthers, type Runtime, same, start } from "./support/processes.ts";
import { all, collect, inFolder, onFile, rawConnection, rawSql, refused, residentMib } from "./support/scratch.ts";

/** Case A03 asks for 20,000, which take a minute on a busy machine: THREADLOG_BATCHES=20000. */
const BATCHES = Number(process.env.THREADLOG_BATCHES ?? 8000);
const NFS = 0x6969;
const EXT4 = 0xef53;

/** Starts appenders, lets them go together, and waits for their end. Resolves with what they were told. */
async function appendTogether(path: string, who: readonly Runtime[], rounds: number, events: number) {
  const children = who.map((runtime, i) =>
    start(runtime, "append.ts", [path, `${runtime}${i}`, `${rounds}`, `${events}`])
  );
  for (const child of children) await child.printed("ready");
  for (const child of children) child.say("go");
  await allEnd(children);
  return children.flatMap(({ lines }) => lines.filter((line) => line.startsWith("ack ")));
}

/** A log holds exactly what was acknowledged, in order and without gaps. */
async function holdsExactly(path: string, acknowledged: readonly string[], count: number): Promise<void> {
  await using log = await openLog(path);
  const events = await all(log.read());
  assert.equal(acknowledged.length, count);
  assert.deepEqual(events.map(({ position }) => position), Array.from({ length: count }, (_, i) => i + 1));
  assert.deepEqual(events.map(({ version }) => version), Array.from({ length: count }, (_, i) => i + 1));
  assert.deepEqual(
    new Set(acknowledged),
    new Set(events.map(({ position, version }) => `ack ${position} ${version}`)),
  );
  const written = new Map<string, number>();
  for (const { value } of events) {
    const { name, round, i } = value as { name: string; round: number; i: number };
    const order = round * 1000 + i;
    assert.ok(order > (written.get(name) ?? -1), `${name} out of order`);
    written.set(name, order);
  }
  const report = await log.verify();
  assert.deepEqual([report.ok, report.events], [true, count]);
}

describe("storage", () => {
  it(
    "A01 two processes append 200 events each to one file",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await holdsExactly(path, await appendTogether(path, same(2), 1, 200), 400);
    }),
  );

  it(
    "A01 one process of each runtime appends 200 events to one file",
    { skip: noOthers },
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const who = [...new Set(mixed(3))];
      await holdsExactly(path, await appendTogether(path, who, 1, 200), who.length * 200);
    }),
  );

  it(
    "A01 a lock that is held too long is a typed error, and the log goes on after it",
    onFile(async (log, path) => {
      await log.thread("a").put("k", 1);
      const holder = rawConnection(path);
      holder.exec("BEGIN IMMEDIATE");
      const began = performance.now();
      const error = await refused("busy", () => log.thread("a").put("k", 2));
      assert.ok(performance.now() - began >= 290);
      assert.match(error.place!, /a\.db|test\.db/);
      const queued = log.thread("a").put("k", 3);
      holder.exec("COMMIT");
      holder.close();
      assert.equal((await queued).version, 2);
    }, { busyTimeoutMs: 300 }),
  );

  it(
    "A02 closing after appends leaves neither -wal nor -shm, and closing twice is harmless",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const log = await openLog(path);
      await log.batch((batch) => {
        for (let i = 0; i < 50; i++) batch.thread("a").put(`k${i}`, i);
      });
      await log.thread("a").get("k1");
      const iterator = log.read();
      await iterator.next();
      await log.close();
      await log.close();
      assert.deepEqual(readdirSync(folder), ["a.db"]);
      rmSync(path);
      assert.deepEqual(readdirSync(folder), []);
    }),
  );

  it(
    `A03 ${BATCHES} batches of 1 to 60 events leave the memory flat`,
    onFile(async (log) => {
      const value = { text: "x" };
      const batchOf = (size: number) =>
        log.batch((batch) => {
          const thread = batch.thread("a");
          for (let n = 0; n < size; n++) thread.append("said", value);
        });
      const run = async (from: number, to: number) => {
        for (let i = from; i < to; i += 10) {
          await Promise.all(Array.from({ length: 10 }, (_, n) => batchOf(1 + (i + n) % 60)));
        }
      };
      await run(0, BATCHES * 0.5);
      // What leaks grows in each part; what a collector has put off, in one.
      const sizes = [residentMib()];
      for (const part of [0.5, 0.75]) {
        await run(BATCHES * part, BATCHES * (part + 0.25));
        sizes.push(residentMib());
      }
      const grown = Math.min(sizes[1]! - sizes[0]!, sizes[2]! - sizes[1]!);
      assert.ok(grown < 24, `grew by ${grown.toFixed(1)} MiB`);
    }, { durability: "normal", cacheBytes: 1 << 20 }),
  );

  it(
    "A04 empty bytes stay bytes",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const empty = new Uint8Array(0);
      {
        await using log = await openLog(path);
        await log.thread("a").put("k", { b: empty });
        await log.thread("a").put("", empty, { meta: empty });
        assert.deepEqual(await log.thread("a").get(""), empty);
      }
      await using log = await openLog(path);
      const { b } = await log.thread("a").get("k");
      assert.ok(b instanceof Uint8Array);
      assert.equal(b.length, 0);
      assert.deepEqual(await log.thread("a").get(""), empty);
      assert.deepEqual((await log.thread("a").entry(""))!.meta, empty);
    }),
  );

  it(
    "A05 integers beyond 32 bits are exact",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const time = 1667476703000;
      {
        await using log = await openLog(path, { now: () => time });
        assert.equal((await log.thread("a").put("k", 2147483649)).time, time);
      }
      rawSql(
        path,
        "UPDATE events SET position = 2147483648, latest = 2147483648, version = 4294967296",
        "UPDATE threads SET created = 2147483648",
      );
      for (let round = 0; round < 2; round++) {
        await using log = await openLog(path, { now: () => time });
        const thread = log.thread("a");
        assert.equal(await thread.get("k"), 2147483649);
        const { position, version } = await thread.append("said", 2 ** 53 - 1);
        assert.deepEqual([position, version], [2147483649 + round, 4294967297 + round]);
        assert.deepEqual(await thread.head(), { version, position });
        assert.equal(await log.head(), position);
        const [event] = await all(log.read({ after: position - 1 }));
        assert.deepEqual([event!.position, event!.version, event!.time, event!.value], [
          position,
          version,
          time,
          2 ** 53 - 1,
        ]);
        assert.deepEqual((await thread.latest())!.position, 2147483648);
        assert.equal((await all(log.threads()))[0]!.position, position);
      }
    }),
  );

  it(
    "A06 reading one row of many keeps no lock",
    onFile(async (log, path) => {
      for (let i = 0; i < 100; i++) await log.thread("a").append("said", { i });
      await log.thread("a").put("k", 1);
      await log.head();
      await log.thread("a").head();
      await log.thread("a").latest();
      await log.read().next();
      await log.thread("a").replay({ reverse: true }).next();
      await log.threads().next();
      await log.thread("a").at(50).entries().next();
      rawSql(path, "CREATE TABLE other (x)", "ALTER TABLE events ADD COLUMN extra", "DROP TABLE other");
      await log.thread("a").put("k", 2);
      assert.equal(await log.thread("a").get("k"), 2);
      await log.close();
      assert.equal(existsSync(`${path}-wal`), false);
    }),
  );

  it(
    "A07 two readers that take turns each see every event once, in order",
    onFile(async (log) => {
      const thread = log.thread("a");
      await Promise.all(Array.from({ length: 1000 }, (_, i) => thread.append("said", { i })));
      const readers = [log.read({ to: 1000 }), thread.replay({ to: 1000 })];
      const seen: number[][] = [[], []];
      for (let i = 0; i < 1000; i++) {
        for (const [n, reader] of readers.entries()) {
          const { value } = await reader.next();
          seen[n]!.push(value.position);
          assert.deepEqual(value.value, { i });
        }
        if (i % 100 === 0) collect();
        if (i % 10 === 0) await thread.append("more", null);
      }
      const wanted = Array.from({ length: 1000 }, (_, i) => i + 1);
      assert.deepEqual(seen, [wanted, wanted]);
      for (const reader of readers) assert.equal((await reader.next()).done, true);
    }),
  );

  it(
    "A08 a paused reader does not let the write-ahead log grow",
    onFile(async (log) => {
      const thread = log.thread("a");
      for (let i = 0; i < 10; i++) await thread.append("first", { i });
      const paused = log.read();
      await paused.next();
      const listing = thread.entries();
      await thread.put("k", 1);
      await listing.next();
      const text = randomBytes(32 << 10); // nothing that could be compressed
      let largest = 0;
      for (let i = 0; i < 1500; i++) {
        await thread.append("said", { i, text });
        if (i % 25 === 0) largest = Math.max(largest, (await log.stats()).walBytes);
      }
      assert.ok(largest < 24 << 20, `the -wal file grew to ${largest}`);
      assert.equal((await paused.next()).value.version, 2);
      await paused.return!();
      await listing.return!();
      await thread.append("last", null);
      const { walBytes, dataBytes } = await log.stats();
      assert.ok(walBytes < 12 << 20, `the -wal file stays at ${walBytes}`);
      assert.ok(dataBytes > 20 << 20, "most of it is in the database");
    }),
  );

  it(
    "A09 four processes that append and close again and again lose nothing",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await holdsExactly(path, await appendTogether(path, same(4), 12, 5), 240);
    }),
  );

  it(
    "A09 four processes of several runtimes that append and close again and again lose nothing",
    { skip: noOthers },
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await holdsExactly(path, await appendTogether(path, mixed(4), 12, 5), 240);
    }),
  );

  it(
    "A09 the version of SQLite is told, and an affected one warns, once",
    onFile(async (log) => {
      const { engine } = await log.stats();
      assert.match(engine, /^sqlite \d+\.\d+\.\d+ \((bun|node):sqlite\)$/);
      const own = engine.split(/[ .]/).slice(1, 4).map(Number);
      for (
        const [version, older] of [[[3, 49, 2], true], [[3, 51, 2], true], [[3, 51, 3], false], [[4, 0, 0], false]]
      ) {
        assert.equal(isOlder(version as number[], [3, 51, 3]), older);
      }
      const warnings: Error[] = [];
      const { emitWarning } = process;
      process.emitWarning = ((text: string, options: { code: string }) => {
        warnings.push(Object.assign(new Error(text), options));
      }) as typeof process.emitWarning;
      try {
        warnOfOldSqlite("sqlite 3.51.3 (node:sqlite)");
        assert.equal(warnings.length, 0);
        warnOfOldSqlite("sqlite 3.49.1 (node:sqlite)");
        warnOfOldSqlite("sqlite 3.49.1 (node:sqlite)");
      } finally {
        process.emitWarning = emitWarning;
      }
      // Where this runtime's own SQLite is affected, opening the log has warned already.
      assert.equal(warnings.length, isOlder(own, [3, 51, 3]) ? 0 : 1);
      for (const warning of warnings) {
        assert.match(warning.message, /3\.49\.1.*3\.51\.3/s);
        assert.equal((warning as { code?: string }).code, "THREADLOG_OLD_SQLITE");
      }
    }),
  );

  it(
    "A11 a network file system is refused unless that is overridden, a local one says nothing",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const options = {
        codecId: codecId(msgpack),
        now: Date.now,
        durability: "full",
        readOnly: false,
        busyTimeoutMs: 5000,
        allowNetworkFilesystem: false,
        payloadBytes: 1 << 20,
        maxValueBytes: 1 << 26,
      } as const;
      const probe = (type: number) => () => Promise.resolve(type);
      const error = await refused(
        "network_filesystem",
        () => SqliteBackend.open(path, { ...options, probe: probe(NFS) }),
      );
      assert.equal(error.place, path);
      assert.match(error.message, /NFS/);
      assert.deepEqual(readdirSync(folder), []);
      const allowed = { ...options, probe: probe(NFS), allowNetworkFilesystem: true };
      await (await SqliteBackend.open(path, allowed)).close();
      await (await SqliteBackend.open(path, { ...options, probe: probe(EXT4) })).close();
      await (await openLog(path)).close();
    }),
  );

  it(
    "A12 a backup during appends is a whole prefix with all that was acknowledged before",
    inFolder(async (folder) => {
      await using log = await openLog(join(folder, "a.db"));
      let running = true;
      let last = 0;
      const writers = Array.from({ length: 8 }, async (_, n) => {
        for (let i = 0; running; i++) {
          last = (await log.thread(`t${n}`).put("k", { i, text: "y".repeat(2000) })).position;
        }
      });
      for (let round = 0; round < 3; round++) {
        while (last < (round + 1) * 500) await new Promise((resolve) => setTimeout(resolve, 5));
        const acknowledged = last;
        const target = join(folder, `copy${round}.db`);
        await log.backup(target);
        await using copy = await openLog(target, { readOnly: round === 1 });
        const head = await copy.head();
        assert.ok(head >= acknowledged, `${head} of ${acknowledged}`);
        const events = await all(copy.read());
        assert.deepEqual(events.map(({ position }) => position), Array.from({ length: head }, (_, i) => i + 1));
        assert.deepEqual(events, await all(log.read({ to: head })));
        assert.equal((await copy.verify()).ok, true);
        const { place } = await refused("invalid_argument", () => log.backup(target));
        assert.equal(place, target);
      }
      running = false;
      await Promise.all(writers);
      assert.deepEqual(readdirSync(folder).filter((name) => name.includes("partial")), []);
    }),
  );
});
