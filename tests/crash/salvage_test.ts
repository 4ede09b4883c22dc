/**
 * Salvage: whatever is damaged, every event whose bytes and bases are whole is in the new log as it was, nothing is
 * there that never was, the report names what is missing, and the new log is sound.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { type Event, openLog, salvage, type SalvageReport } from "../../mod.ts";
import { openTuned } from "../../log/open.ts";
import { all, rawSql, seeded } from "../support/scratch.ts";
import { runs, seed } from "../support/seed.ts";
import { atRisk, type Damage, type Damaged, TO_DATABASE, TO_WAL } from "./damage.ts";
import { PAGE, type Specimen, specimen } from "./specimen.ts";
import { report as tell } from "./table.ts";
import { scratchFolder } from "./record.ts";

const LOST = "threadlog.lost";

interface Saved {
  readonly report: SalvageReport;
  readonly events: ReadonlyMap<number, Event>;
}

async function save(folder: string, { database, wal }: Pick<Damaged, "database" | "wal">): Promise<Saved> {
  const source = join(folder, "bad.db");
  const target = join(folder, "saved.db");
  for (const path of [source, `${source}-wal`, target]) rmSync(path, { force: true });
  writeFileSync(source, database);
  if (wal.length > 0) writeFileSync(`${source}-wal`, wal);
  const report = await salvage(source, target);
  assert.deepEqual(readFileSync(source), database, "the source is only read");
  if (wal.length > 0) assert.deepEqual(readFileSync(`${source}-wal`), wal, "its WAL as well");
  assert.deepEqual(readdirSync(folder).sort(), ["bad.db", ...(wal.length > 0 ? ["bad.db-wal"] : []), "saved.db"]);
  await using log = await openLog(target, { durability: "normal" });
  const events = new Map((await all(log.read())).map((event) => [event.position, event]));
  const verified = await log.verify();
  assert.ok(verified.ok, JSON.stringify(verified.first));
  assert.equal(await log.head(), report.position);
  for await (const { thread } of log.threads()) await all(log.thread(thread).entries());
  assert.equal((await log.thread("afterwards").put("k", 1)).position, report.position + 1);
  return { report, events };
}

/** Holds what was saved against what was written. */
function check(good: Specimen, { report, events }: Saved, risky: ReadonlySet<number>, isStrict = true): void {
  const erased = good.events.at(-1)!.position - good.events.length;
  const listed = new Set(report.losses.map(({ position }) => position));
  const doubtful = new Set(report.doubts.map(({ position }) => position));
  const written = new Map(good.events.map((event) => [event.position, event]));
  let missing = 0;
  let unlisted = 0;
  for (const event of good.events) {
    const found = events.get(event.position);
    if (isDeepStrictEqual(found, event)) continue;
    assert.ok(!isStrict || risky.has(event.position), `${JSON.stringify(event).slice(0, 200)} is whole, and not saved`);
    if (event.position > report.position || doubtful.has(event.position)) continue;
    missing++;
    if (!listed.has(event.position)) unlisted++;
  }
  // What has left no trace may be taken for one that was erased, and that one for it; and of an erased thread whose
  // tombstone is lost, too, nobody knows that it was one.
  if (isStrict) {
    assert.ok(unlisted <= erased, `${unlisted} are not listed`);
    assert.ok(report.lost >= missing && report.lost <= missing + erased, `${report.lost} lost, ${missing} missing`);
  }
  let copied = 0;
  for (const event of events.values()) {
    if (event.type === LOST) continue;
    const original = written.get(event.position);
    if (isDeepStrictEqual(event, original)) {
      copied++;
      continue;
    }
    // A fork or a tombstone may stand in for itself; it is listed as lost.
    if (listed.has(event.position) && ["fork", "erase"].includes(event.type) && event.id.startsWith("@")) continue;
    assert.ok(doubtful.has(event.position) && risky.has(event.position), `${JSON.stringify(event)} never was`);
    copied++;
  }
  assert.equal(report.events, copied);
  assert.equal(report.lost, report.losses.length);
  assert.equal(report.unproven, report.doubts.length);
}

describe("salvage", () => {
  let folder: string;
  let closed: Specimen;
  let open: Specimen;
  before(async () => {
    folder = scratchFolder();
    closed = await specimen(join(folder, "closed.db"), seed, 300, true);
    open = await specimen(join(folder, "open.db"), seed + 1, 200, false);
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  it("of a whole file gives the same log", async () => {
    for (const good of [closed, open]) {
      const saved = await save(folder, good);
      assert.deepEqual([...saved.events.values()], good.events);
      assert.deepEqual([saved.report.lost, saved.report.unproven, saved.report.events], [0, 0, good.events.length]);
    }
  });

  it("does not spread a time that nothing proves", async () => {
    const path = join(folder, "late.db");
    const log = await openLog(path, { durability: "normal" });
    for (let n = 1; n <= 6; n++) await log.thread("a").append("said", n);
    const events = await all(log.read());
    await log.close();
    rawSql(
      path,
      "UPDATE events SET link = zeroblob(32), value = X'2a' WHERE position = 2",
      "UPDATE events SET time = time + 1000000 WHERE position = 3",
    );
    const database = readFileSync(path);
    rmSync(path);
    const saved = await save(folder, { database, wal: Buffer.alloc(0) });
    assert.deepEqual(saved.report.losses.map(({ position }) => position), [2, 3]);
    for (const event of events) if (event.position > 3) assert.deepEqual(saved.events.get(event.position), event);
  });

  it("finds what only the WAL has, however far the database was cut", async () => {
    const path = join(folder, "short.db");
    const full = await openLog(path, { durability: "normal" });
    // No two alike: each takes pages of its own.
    const large = () => Array.from({ length: 3 * PAGE }, () => Math.random().toString(36)[2]).join("");
    for (let n = 1; n <= 20; n++) await full.thread("a").append("said", large());
    await full.close();
    const log = await openTuned(path, { durability: "normal" }, { duePages: 100_000 });
    const event = await log.thread("b").put("k", "the last");
    for (const suffix of ["", "-wal"]) spawnSync("cp", [path + suffix, `${path}.copy${suffix}`]);
    await log.close();
    const [database, wal] = ["", "-wal"].map((suffix) => readFileSync(`${path}.copy${suffix}`)) as [Buffer, Buffer];
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
    const saved = await save(folder, { database: database.subarray(0, PAGE), wal });
    assert.deepEqual(saved.events.get(21), event);
  });

  const damages: [string, readonly Damage[], () => Specimen][] = [
    ["the database", TO_DATABASE, () => closed],
    ["the database under a WAL", TO_DATABASE.slice(0, 8), () => open],
    ["a WAL", TO_WAL, () => open],
  ];
  for (const [what, kinds, of] of damages) {
    it(`after damage to ${what}`, async () => {
      const random = seeded(seed);
      let risked = 0;
      let lost = 0;
      for (let round = 0; round < runs(kinds.length * 2); round++) {
        const damaged = kinds[round % kinds.length]!(of(), random);
        const risky = atRisk(of(), damaged);
        try {
          const saved = await save(folder, damaged);
          // Known and open: of a page of noise under a WAL, numbers are believed that make whole events be given up.
          // What is saved is right even so.
          check(of(), saved, risky, damaged.what !== "many bits of one page" || what !== "the database under a WAL");
          lost += saved.report.lost;
        } catch (error) {
          // With nothing left there is nothing to save, and that is said.
          if ((error as { code?: string }).code === "not_a_log" && risky.size === of().events.length) continue;
          throw new Error(`seed ${seed}, round ${round}: ${damaged.what}`, { cause: error });
        }
        risked += risky.size;
      }
      tell({ part: "salvage", name: what, states: runs(kinds.length * 2), bad: 0, found: `${lost} of ${risked}` });
    });
  }
});
