/**
 * A log and its file: what may be opened, read-only, closing, bounds, codecs, stats, verify and backup.
 */
import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { publish } from "../backends/sqlite/copy_file.ts";
import { type Codec, openLog } from "../mod.ts";
import { all, inFolder, nextTurn, onEach, onFile, rawConnection, rawSql, refused, seeded } from "./support/scratch.ts";

const json: Codec = {
  encode: (value) => new TextEncoder().encode(JSON.stringify(value)),
  decode: (bytes) => JSON.parse(new TextDecoder().decode(bytes)),
};

describe("opening", () => {
  it(
    "refuses what is not a log, and leaves it as it is",
    inFolder(async (folder) => {
      const foreign = join(folder, "foreign.db");
      rawSql(foreign, "CREATE TABLE mine (x)", "INSERT INTO mine VALUES (1)", "PRAGMA user_version = 3");
      const marked = join(folder, "marked.db");
      rawSql(marked, "PRAGMA application_id = 7");
      const text = join(folder, "text.txt");
      writeFileSync(text, "Dear diary\n".repeat(500));
      const short = join(folder, "short.txt");
      writeFileSync(short, "hi");
      for (const path of [foreign, marked, text, short]) {
        const before = [readFileSync(path), statSync(path).mtimeMs];
        for (const readOnly of [false, true]) {
          const { place } = await refused("not_a_log", () => openLog(path, { readOnly }));
          assert.equal(place, path);
        }
        assert.deepEqual([readFileSync(path), statSync(path).mtimeMs], before, path);
      }
      assert.deepEqual(readdirSync(folder).sort(), ["foreign.db", "marked.db", "short.txt", "text.txt"]);
    }),
  );

  it(
    "refuses a newer format, a directory, a missing folder; makes a log of an empty file",
    inFolder(async (folder) => {
      const path = join(folder, "newer.db");
      {
        await using log = await openLog(path);
        await log.thread("a").put("k", 1);
      }
      rawSql(path, "PRAGMA user_version = 2");
      const bytes = readFileSync(path);
      for (const readOnly of [false, true]) await refused("newer_format", () => openLog(path, { readOnly }));
      assert.deepEqual(readFileSync(path), bytes);
      mkdirSync(join(folder, "directory"));
      await refused("storage", () => openLog(join(folder, "directory")));
      await refused("storage", () => openLog(join(folder, "none", "a.db")));
      await refused("not_found", () => openLog(join(folder, "none.db"), { readOnly: true }));
      assert.equal(existsSync(join(folder, "none.db")), false);
      const empty = join(folder, "empty.db");
      writeFileSync(empty, "");
      await refused("not_a_log", () => openLog(empty, { readOnly: true }));
      await using log = await openLog(empty);
      assert.equal(await log.head(), 0);
      for (const url of ["postgres://u:secret@h/db", "http://x/y", "libsql://x"]) {
        const error = await refused(undefined, () => openLog(url));
        assert.ok(!error.message.includes("secret"));
      }
    }),
  );

  it(
    "takes odd file names",
    inFolder(async (folder) => {
      for (const name of ["with space.db", "50%.db", "é#?.db", "a'b.db", "file:x.db"]) {
        const path = join(folder, name);
        {
          await using log = await openLog(path);
          await log.thread("a").put("k", name);
        }
        assert.ok(existsSync(path), name);
        await using log = await openLog(path, { readOnly: true });
        assert.equal(await log.thread("a").get("k"), name);
      }
    }),
  );

  it(
    "by many at once makes one log",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const logs = await Promise.all(Array.from({ length: 8 }, () => openLog(path)));
      await Promise.all(logs.map((log, i) => log.thread("a").put(`k${i}`, i)));
      await Promise.all(logs.map((log) => log.refresh()));
      assert.deepEqual(await Promise.all(logs.map((log) => log.head())), new Array(8).fill(8));
      for (const log of logs) await log.close();
      assert.deepEqual(readdirSync(folder), ["a.db"]);
    }),
  );
});

async function refusesWrites(path: string): Promise<void> {
  await using log = await openLog(path, { readOnly: true });
  const thread = log.thread("a");
  assert.equal(await thread.get("k"), 1);
  assert.equal((await all(log.read())).length, 1);
  assert.equal((await log.verify()).ok, true);
  for (
    const write of [
      () => thread.put("k", 2),
      () => thread.update("k", () => 2),
      () => thread.fork("b"),
      () => thread.erase(),
      () => log.erase([]),
      () => log.batch((batch) => batch.thread("a").delete("k")),
    ]
  ) await refused("read_only", write);
  assert.equal(await log.head(), 1);
}

async function oneEvent(path: string): Promise<void> {
  await using log = await openLog(path);
  await log.thread("a").put("k", 1);
}

/** Mounts a folder on itself, read-only; false where that is not to be had. */
function mountReadOnly(folder: string): boolean {
  const mount = (...args: string[]) => spawnSync("mount", args).status === 0;
  return mount("--bind", folder, folder) && mount("-o", "remount,bind,ro", folder);
}

describe("read-only", () => {
  it(
    "writes nothing, and sees what others append",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await oneEvent(path);
      await refusesWrites(path);
      await using reader = await openLog(path, { readOnly: true });
      await using writer = await openLog(path);
      await writer.thread("a").put("k", 2);
      await reader.refresh();
      assert.equal(await reader.thread("a").get("k"), 2);
    }),
  );

  it(
    "opens a file that may not be written, in a folder that may not be written",
    { skip: process.platform !== "linux" && "it needs Linux's permissions or mounts" },
    inFolder(async (folder) => {
      const inner = join(folder, "inner #1?");
      mkdirSync(inner);
      const path = join(inner, "a.db");
      await oneEvent(path);
      const isRoot = process.getuid?.() === 0;
      const mounted = isRoot && mountReadOnly(inner);
      // Permissions don't hold root back: where it can't mount either, the file is at least opened.
      if (!mounted) {
        chmodSync(path, 0o444);
        chmodSync(inner, 0o555);
      }
      try {
        await refusesWrites(path);
        if (mounted || !isRoot) {
          const { code, remedy } = await refused(undefined, () => openLog(path));
          assert.match(code, /^(read_only|storage)$/);
          assert.match(remedy!, /readOnly: true/);
        }
        assert.deepEqual(readdirSync(inner), ["a.db"]);
      } finally {
        if (mounted) spawnSync("umount", [inner]);
        else chmodSync(inner, 0o755);
      }
    }),
  );
});

describe("closing", () => {
  onEach("settles everything that was queued, and again is harmless", async (log) => {
    const thread = log.thread("a");
    await thread.put("n", 0);
    const writes = [
      ...Array.from({ length: 500 }, (_, i) => thread.append("said", i)),
      ...Array.from({ length: 20 }, () => thread.update("n", (n) => n + 1)),
      thread.put("k", 1),
    ];
    const closing = log.close();
    const events = await Promise.all(writes);
    await closing;
    await Promise.all([log.close(), log[Symbol.asyncDispose]()]);
    assert.equal(events.at(-1)!.position, 522);
  });

  it(
    "keeps what it settled",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const log = await openLog(path);
      const writes = Array.from({ length: 500 }, (_, i) => log.thread("a").append("said", i));
      await log.close();
      assert.equal((await Promise.allSettled(writes)).filter(({ status }) => status === "fulfilled").length, 500);
      await using again = await openLog(path);
      assert.equal(await again.head(), 500);
    }),
  );
});

describe("the queue", () => {
  it(
    "is bounded in number; flush makes room",
    onFile(async (log) => {
      const write = () => log.thread("a").append("said", "x".repeat(100));
      const writes = Promise.allSettled(Array.from({ length: 20 }, () => write()));
      const refusal = await refused("queue_full", write);
      assert.match(refusal.remedy!, /flush/);
      await log.flush();
      const settled = await writes;
      assert.equal(settled.filter(({ status }) => status === "fulfilled").length, 10);
      assert.equal(await log.head(), 10);
      assert.equal((await write()).position, 11);
      assert.equal((await log.stats()).queued, 0);
    }, { maxQueue: 10 }),
  );

  it(
    "is bounded in bytes",
    onFile(async (log) => {
      const writes = Array.from({ length: 10 }, () => log.thread("a").append("said", "x".repeat(10_000)));
      const settled = await Promise.allSettled(writes);
      const failed = settled.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
      assert.ok(failed.length >= 5 && failed.every(({ reason }) => reason.code === "queue_full"));
      assert.equal(await log.head(), 10 - failed.length);
    }, { maxQueueBytes: 30_000 }),
  );
});

describe("codecs", () => {
  it(
    "of any make are remembered, and another one is refused",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      {
        await using log = await openLog(path, { codec: json });
        await log.thread("a").put("k", { n: [1] });
        await log.thread("a").update("k", (draft) => void draft.n.push(2));
        const { place } = await refused("unencodable", () => log.thread("a").put("bad", { when: new Date() }));
        assert.match(place!, /when/);
        await refused("unencodable", () => log.thread("a").put("bad", undefined));
        assert.equal(await log.head(), 2);
      }
      assert.match(readFileSync(path, "latin1"), /\{"n":\[1\]\}/);
      for (const options of [{}, { readOnly: true }, { codec: { ...json, name: "json" } }]) {
        const bytes = readFileSync(path);
        const error = await refused("codec_mismatch", () => openLog(path, options));
        assert.match(error.message, /custom:[0-9a-f]{16}/);
        assert.equal(error.place, path);
        assert.deepEqual(readFileSync(path), bytes);
      }
      await using log = await openLog(path, { codec: { ...json } });
      assert.deepEqual(await log.thread("a").get("k"), { n: [1, 2] });
      assert.equal((await log.verify()).ok, true);
    }),
  );
});

describe("stats", () => {
  onEach("tell the log in figures", async (log) => {
    await log.thread("a").put("k", "x".repeat(1000));
    await log.thread("b").put("k", 1);
    const { engine, position, threads, events, erased, queued, cacheBytes, dataBytes, walBytes } = await log.stats();
    assert.deepEqual([position, threads, events, erased, queued], [2, 2, 2, 0, 0]);
    assert.ok(cacheBytes > 1000);
    if (engine !== "memory") assert.ok(dataBytes >= 4096);
    if (engine.startsWith("sqlite")) assert.ok(walBytes > 4096);
  });
});

describe("verify", () => {
  it(
    "names the first event whose bits were flipped, wherever they are",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const random = seeded(5);
      // Nothing that a delta could take from another, but at both ends.
      const written = Array.from({ length: 201 }, () => Math.floor(random() * 2 ** 50).toString(36).padStart(10, "0"));
      const marks = written.map((text) => text.slice(3, 8));
      {
        await using log = await openLog(path);
        for (let i = 1; i <= 200; i++) {
          const write = { meta: { mark: `meta${i}.` }, id: `id${i}.` };
          if (i % 3) await log.thread(`t${i % 4}`).put(`key${i}.`, { mark: written[i], pad: "p".repeat(200) }, write);
          else await log.thread(`t${i % 4}`).append(`type${i}.`, written[i], write);
        }
        await log.thread("t1").fork("f");
        assert.deepEqual(await log.verify(), { ok: true, events: 201, position: 201, faults: 0, first: undefined });
      }
      const good = readFileSync(path);
      for (let round = 0; round < 40; round++) {
        const position = 1 + Math.floor(random() * 200);
        const choices = [`meta${position}.`, `id${position}.`, marks[position]!];
        if (position % 3 === 0) choices.push(`type${position}.`);
        const mark = choices[Math.floor(random() * choices.length)]!;
        const bytes = Buffer.from(good);
        // Indexes hold copies of ids; the row is where the value stands close by.
        const value = bytes.indexOf(marks[position]!);
        const at = mark === marks[position] ? value : bytes.lastIndexOf(mark, value + 400);
        assert.ok(at > 0 && Math.abs(at - value) < 600, `${mark} at ${at}, ${value}`);
        bytes[at + 2]! ^= 1 << Math.floor(random() * 3);
        writeFileSync(path, bytes);
        await using log = await openLog(path);
        const report = await log.verify();
        assert.equal(report.ok, false, mark);
        assert.equal(report.first!.position, position, `${mark}: ${report.first!.reason}`);
        assert.ok(report.first!.reason.length > 10);
        if (report.first!.thread !== undefined) assert.equal(report.first!.thread, `t${position % 4}`);
      }
    }),
  );

  it(
    "names what another connection changed or removed, while the log is open",
    onFile(async (log, path) => {
      for (let i = 1; i <= 10; i++) await log.thread(`t${i % 2}`).put("k", i);
      const changes: [string, number][] = [
        ["DELETE FROM events WHERE position = 9", 10],
        ["UPDATE events SET time = time + 1 WHERE position = 8", 8],
        ["UPDATE events SET key = X'6b6b00' WHERE position = 6", 6],
        ["UPDATE events SET value = X'07', meta = X'01' WHERE position = 4", 4],
        ["UPDATE events SET id = X'61' WHERE position = 3", 3],
        ["UPDATE events SET link = zeroblob(32) WHERE position = 2", 2],
        ["DELETE FROM events WHERE position = 1", 3],
      ];
      for (const [sql, position] of changes.slice(0, -1)) {
        rawSql(path, sql);
        await nextTurn();
        const report = await log.verify();
        assert.deepEqual([report.ok, report.first!.position], [false, position], sql);
      }
      rawSql(path, changes.at(-1)![0]);
      await nextTurn();
      assert.equal((await log.verify()).ok, false);
    }),
  );
});

describe("backup", () => {
  onEach("refuses what it can't do, and leaves nothing", async (log) => {
    await log.thread("a").put("k", 1);
    for (const target of [undefined, null, 7, "", {}]) {
      await refused("invalid_argument", () => log.backup(target as string));
    }
    const { engine } = await log.stats();
    await refused(
      engine.startsWith("sqlite") ? "storage" : "unsupported",
      () => log.backup("/nonexistent/folder/copy.db"),
    );
  });

  it(
    "to one target, of several at once, is won by one; nothing is overwritten",
    inFolder(async (folder) => {
      await using small = await openLog(join(folder, "small.db"), { durability: "normal" });
      await using large = await openLog(join(folder, "large.db"), { durability: "normal" });
      await small.thread("log").put("name", "small");
      await large.thread("log").put("name", "large");
      for (let i = 0; i < 200; i++) await large.thread("pad").put(`k${i}`, "x".repeat(1000));
      const copies = join(folder, "copies");
      mkdirSync(copies);
      for (let round = 0; round < 8; round++) {
        const target = join(copies, `${round}.db`);
        const logs = round % 2 === 0 ? [small, large, small] : [large, large];
        const settled = await Promise.allSettled(logs.map((log) => log.backup(target)));
        const winner = settled.findIndex(({ status }) => status === "fulfilled");
        for (const [index, outcome] of settled.entries()) {
          if (index === winner) continue;
          assert.equal(outcome.status, "rejected");
          await refused("invalid_argument", () => Promise.reject((outcome as PromiseRejectedResult).reason));
        }
        await using copy = await openLog(target, { readOnly: true });
        assert.equal(await copy.thread("log").get("name"), logs[winner] === small ? "small" : "large");
      }
      assert.deepEqual(readdirSync(copies).sort(), Array.from({ length: 8 }, (_, round) => `${round}.db`));
    }),
  );

  it(
    "refuses what SQLite keeps beside a database, whatever link leads there, and what a dangling link names",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const alias = join(folder, "alias.db");
      const inner = join(folder, "inner");
      const outer = join(folder, "outer");
      await oneEvent(path);
      mkdirSync(inner);
      symlinkSync(path, alias);
      symlinkSync(folder, outer);
      symlinkSync(join(folder, "a.db-journal"), join(inner, "to journal"));
      symlinkSync(join(folder, "nothing"), join(inner, "dangling"));
      writeFileSync(join(folder, "other.db"), "");
      for (const name of [path, alias]) {
        await using log = await openLog(name);
        await log.thread("a").put("k", 2);
        for (const base of [path, alias, join(outer, "a.db"), join(outer, "alias.db"), join(folder, "other.db")]) {
          for (const suffix of ["-journal", "-wal", "-shm"]) {
            const { message } = await refused("invalid_argument", () => log.backup(base + suffix));
            assert.match(message, /name that SQLite uses beside|exists already/);
          }
        }
        for (const link of ["to journal", "dangling"]) {
          await refused("invalid_argument", () => log.backup(join(inner, link)));
        }
        await refused("invalid_argument", () => log.backup(name));
      }
      assert.deepEqual(readdirSync(folder).sort(), ["a.db", "alias.db", "inner", "other.db", "outer"]);
      await using log = await openLog(path);
      assert.equal(await log.thread("a").get("k"), 2);
      await log.backup(join(folder, "none.db-wal")); // nothing that it could be beside
    }),
  );

  it(
    "gets its name once, too, where there are no links",
    inFolder(async (folder) => {
      const target = join(folder, "copy.db");
      const partials = ["1", "2", "3"].map((name) => join(folder, name));
      for (const partial of partials) writeFileSync(partial, partial);
      const noLinks = () => Promise.reject(Object.assign(new Error("no links here"), { code: "EPERM" }));
      const settled = await Promise.allSettled(partials.map((partial) => publish(partial, target, noLinks)));
      assert.deepEqual(settled.map(({ status }) => status).sort(), ["fulfilled", "rejected", "rejected"]);
      const winner = partials[settled.findIndex(({ status }) => status === "fulfilled")];
      assert.equal(readFileSync(target, "utf8"), winner);
      await refused(
        "invalid_argument",
        () => publish(partials.find((partial) => partial !== winner)!, target, noLinks),
      );
      assert.equal(readFileSync(target, "utf8"), winner);
    }),
  );

  it(
    "of a read-only log, in odd places",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await oneEvent(path);
      await using log = await openLog(path, { readOnly: true });
      const target = join(folder, "it's a copy?.db");
      await log.backup(target);
      await using copy = await openLog(target);
      assert.equal((await copy.thread("a").put("k", 2)).version, 2);
      const raw = rawConnection(target);
      assert.equal(raw.prepare("PRAGMA integrity_check").get()!.integrity_check, "ok");
      raw.close();
    }),
  );
});
