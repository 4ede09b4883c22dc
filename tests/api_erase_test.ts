/**
 * Erasing: nothing of what was erased is left in the file, and what forks share stays.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { defineProjection, openLog } from "../mod.ts";
import { all, inFolder, onEach, rawConnection, refused, seeded, sleep } from "./support/scratch.ts";

/** Every secret begins so. */
const SECRET = "SeCrEt";
const utf8 = new TextEncoder();

/** How often the secrets' mark is found in the bytes of a log's files. */
function traces(path: string): string[] {
  const found: string[] = [];
  for (const file of [path, `${path}-wal`]) {
    if (!existsSync(file)) continue;
    const text = readFileSync(file, "latin1");
    for (const { 0: trace, index } of text.matchAll(/SeCrEt\w*/g)) found.push(`${trace} at ${index}`);
  }
  return found;
}

interface Layout {
  readonly threads: number;
  readonly events: number;
  readonly largest: number;
  readonly seed: number;
}

const LAYOUTS: readonly Layout[] = [
  { threads: 2, events: 30, largest: 20, seed: 1 },
  { threads: 6, events: 400, largest: 100, seed: 2 },
  { threads: 3, events: 200, largest: 9000, seed: 3 },
  { threads: 20, events: 600, largest: 1500, seed: 4 },
  { threads: 2, events: 2500, largest: 60, seed: 5 },
  { threads: 8, events: 300, largest: 40_000, seed: 6 },
];

describe("erase", () => {
  for (const { threads, events, largest, seed } of LAYOUTS) {
    it(
      `leaves no trace: ${events} events of up to ${largest} characters in ${threads} threads`,
      inFolder(async (folder) => {
        const path = join(folder, "a.db");
        const random = seeded(seed);
        const text = (mark: string) => mark + "abcdefghij".repeat(random() * random() * largest / 10);
        const log = await openLog(path, { durability: "normal" });
        await log.project(defineProjection({
          name: "all",
          version: 1,
          saveEvery: 50,
          initial: () => ({ last: [] as unknown[] }),
          evolve: ({ last }, event) => ({ last: [...last, event.value].slice(-5) }),
        }));
        const kept: string[] = [];
        for (let i = 0; i < events; i++) {
          const n = Math.floor(random() * threads);
          const secret = n % 2 === 0;
          const mark = secret ? `${SECRET}${i}x` : `public${i}x`;
          const id = secret ? ["users", `${n}`] : ["others", `${n}`];
          const key = random() < 0.5 ? `k${Math.floor(random() * 20)}` : mark + "key";
          const options = { meta: { by: text(mark) }, id: `${mark}id` };
          const kind = random();
          if (kind < 0.5) await log.thread(id).put(`${secret ? SECRET : ""}${key}`, text(mark), options);
          else if (kind < 0.7) await log.thread(id).append(`${mark}type`, { text: text(mark) }, options);
          else if (kind < 0.8) await log.thread(id).delete(`${secret ? SECRET : ""}${key}`, options);
          else {
            const initial = { list: [] as string[], [`${mark}field`]: 1 };
            await log.thread(id).update(`${secret ? SECRET : ""}list`, (draft) => void draft.list.push(text(mark)), {
              initial,
            });
          }
          if (!secret) kept.push(mark);
        }
        assert.ok(traces(path).length > 0, "the search finds what is there");
        if (seed % 2 === 0) {
          await log.close();
          await using again = await openLog(path);
          await again.erase("users");
          assert.deepEqual(traces(path), [], "while it is open");
        } else {
          await log.erase("users");
          assert.deepEqual(traces(path), [], "while it is open");
          await log.close();
        }
        assert.deepEqual(traces(path), []);
        await using after = await openLog(path);
        assert.equal((await after.verify()).ok, true);
        assert.equal(await after.head(), events + Math.ceil(threads / 2));
        const raw = readFileSync(path, "latin1");
        assert.ok(kept.some((mark) => raw.includes(mark)));
        assert.deepEqual((await all(after.threads({ prefix: "users" }))).length, 0);
      }),
    );
  }

  it(
    "leaves no trace of a rewritten thread either, and a copy holds none",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await using log = await openLog(path);
      for (let round = 0; round < 3; round++) {
        await log.thread("a").put(`${SECRET}key`, `${SECRET} ${"z".repeat(5000)}`);
        await log.thread("b").put("k", round);
        assert.equal((await log.thread("a").erase({ meta: { why: "asked" } }))!.value.through, 2 * round + 1);
        assert.equal(await log.thread("a").erase(), undefined);
        assert.deepEqual(traces(path), []);
      }
      await log.backup(join(folder, "copy.db"));
      assert.deepEqual(traces(join(folder, "copy.db")), []);
    }),
  );

  it(
    "says so where a reader keeps older pages in use, and compact() removes them once that lets go",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await using log = await openLog(path, { busyTimeoutMs: 100 });
      await log.thread("a").put("k", SECRET);
      const reader = rawConnection(path);
      reader.exec("BEGIN");
      reader.prepare("SELECT count(*) AS n FROM events").get();
      await assert.rejects(log.thread("a").erase(), { code: "busy" });
      assert.equal(await log.thread("a").get("k"), undefined);
      reader.exec("COMMIT");
      reader.close();
      await log.compact();
      assert.deepEqual(traces(path), []);
    }),
  );

  it(
    "without scrubbing still removes the events, and compact() removes what copies are left",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await using log = await openLog(path);
      for (let i = 0; i < 300; i++) await log.thread(i % 2 ? "a" : "b").put(`${SECRET}${i % 40}`, `${SECRET} ${i}`);
      assert.equal((await log.erase([], { scrub: false })).length, 2);
      assert.equal((await log.stats()).events, 2);
      await log.compact();
      assert.deepEqual(traces(path), []);
      await assert.rejects(log.erase([], { scrub: 1 as never }), { code: "invalid_argument" });
    }),
  );

  onEach("leaves a tombstone, gapless positions, and what comes after", async (log) => {
    const thread = log.thread("a");
    for (let i = 1; i <= 5; i++) await thread.put(`k${i}`, i);
    await log.thread("b").put("k", 1);
    const before = log.snapshot();
    const tombstone = (await thread.erase({ meta: { why: "asked" } }))!;
    assert.deepEqual([tombstone.type, tombstone.position, tombstone.version, tombstone.value, tombstone.meta], [
      "erase",
      7,
      6,
      { through: 5 },
      { why: "asked" },
    ]);
    assert.equal(await thread.get("k1"), undefined);
    assert.deepEqual(await all(thread.keys()), []);
    assert.equal(await thread.latest(), undefined);
    assert.deepEqual(await thread.head(), { version: 6, position: 7 });
    assert.deepEqual((await all(log.read())).map(({ position }) => position), [6, 7]);
    assert.deepEqual((await all(thread.replay())).map(({ version }) => version), [6]);
    assert.deepEqual((await all(log.threads())).map(({ thread }) => thread), ["b"]);
    for (const read of [() => thread.at(3).get("k1"), () => thread.at(3).latest(), () => all(thread.at(2).keys())]) {
      const error = await refused("erased", read);
      assert.match(error.message, /"a".*5/s);
    }
    await refused("erased", () => log.at(3).thread("a").get("k1"));
    await refused("erased", () => thread.restore(3));
    await refused("erased", () => thread.fork("f", { at: 3 }));
    await refused("conflict", () => thread.put("k", 1, { expect: "new" }));
    assert.equal(await log.at(6).thread("b").get("k"), 1);
    assert.equal(await before.thread("b").get("k"), 1);
    assert.equal((await thread.put("k1", "new", { expect: 6 })).version, 7);
    assert.equal(await thread.get("k1"), "new");
    assert.deepEqual((await all(log.threads())).map(({ thread }) => thread), ["a", "b"]);
    assert.equal((await log.verify()).ok, true);
    const { events, erased } = await log.stats();
    assert.deepEqual([events, erased], [3, 5]);
    assert.deepEqual((await log.erase([])).length, 2);
    assert.deepEqual(await all(log.threads()), []);
    await refused("invalid_argument", () => log.erase(undefined as never));
  });

  onEach("of a parent never breaks a fork, nor a fork of a fork", async (log) => {
    const root = log.thread("root");
    for (let i = 1; i <= 6; i++) await root.put(`k${i}`, { i });
    await root.update("k2", (draft) => void (draft.more = 1));
    const child = await root.fork("child", { at: 4 });
    await child.put("own", 1);
    const grandchild = await child.fork("grandchild");
    await child.put("k1", "changed");
    const state = async (id: string) => (await all(log.thread(id).entries())).map(({ key, value }) => [key, value]);
    const before = [await state("child"), await state("grandchild")];
    const history = (await all(grandchild.replay())).map(({ version, type }) => [version, type]);
    await root.erase();
    assert.deepEqual([await state("child"), await state("grandchild")], before);
    assert.deepEqual((await all(grandchild.replay())).map(({ version, type }) => [version, type]), history);
    assert.deepEqual(await grandchild.at(2).get("k2"), { i: 2 });
    await child.erase();
    assert.deepEqual(await state("grandchild"), before[1]);
    assert.deepEqual(await grandchild.at(2).get("k2"), { i: 2 });
    assert.equal((await log.verify()).ok, true);
    const late = await grandchild.fork("late", { at: 3 });
    await grandchild.restore(2);
    assert.deepEqual(await all(grandchild.keys()), ["k1", "k2"]);
    await grandchild.erase();
    assert.deepEqual(await all(late.keys()), ["k1", "k2", "k3"]);
    assert.deepEqual((await all(log.threads())).map(({ thread }) => thread), ["late"]);
    await late.erase();
    assert.equal((await log.verify()).ok, true);
    assert.deepEqual((await all(log.read())).map(({ type }) => type), ["erase", "erase", "erase", "erase"]);
  });

  it(
    "of a parent keeps in the file what a fork shares, and removes it with the last fork",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await using log = await openLog(path);
      const parent = log.thread("parent");
      await parent.put("shared", `${SECRET}shared`);
      await parent.put("private", `${SECRET}private`);
      const child = await parent.fork("child", { at: 1 });
      await parent.erase();
      assert.equal(await child.get("shared"), `${SECRET}shared`);
      assert.ok(traces(path).every((trace) => trace.startsWith(`${SECRET}shared`)));
      await child.erase();
      assert.deepEqual(traces(path), []);
    }),
  );

  it(
    "is seen whole by another log and its projections, however long the removal takes",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      await using log = await openLog(path, { durability: "normal" });
      await using other = await openLog(path, { durability: "normal" });
      const count = (name: string, mode: "inline" | "behind") =>
        other.project(defineProjection({ name, version: 1, mode, initial: () => 0, evolve: (n: number) => n + 1 }));
      const projections = [await count("inline", "inline"), await count("behind", "behind")];
      await log.thread("b").append("said", 1);
      await Promise.all(Array.from({ length: 6000 }, (_, i) => log.thread("a").append("said", i)));
      await other.refresh();
      for (const projection of projections) {
        await projection.caughtUp();
        assert.equal(await projection.state(), 6001);
      }
      let erased = false;
      const erasing = log.thread("a").erase().then(() => erased = true);
      const counts = new Set<number>();
      while (!erased) {
        await sleep(1);
        counts.add((await all(other.read())).length);
      }
      await erasing;
      await other.refresh();
      assert.deepEqual([...counts].filter((n) => n !== 6001), [2], "all, or none: nothing in between");
      for (const projection of projections) {
        await projection.caughtUp();
        assert.equal(await projection.state(), 1);
      }
    }),
  );

  it(
    "is finished by the next opening if a crash came in between",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      {
        await using log = await openLog(path);
        for (let i = 0; i < 50; i++) await log.thread("a").put("k", `${SECRET}${i}`);
        await log.thread("a").append("said", utf8.encode(SECRET));
      }
      const raw = rawConnection(path);
      raw.exec("UPDATE threads SET erased = 51, tombstone = 52, purge = 1");
      raw.close();
      await using log = await openLog(path);
      assert.deepEqual(traces(path), []);
      assert.deepEqual(await all(log.read()), []);
    }),
  );
});
