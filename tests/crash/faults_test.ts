/**
 * The writer is killed, or its disk fails, at the Nth write or sync. Refusals are typed, the log goes on or has clearly
 * stopped, and reopening finds all that was acknowledged; trying again what was tried gives each event once.
 */
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { SqliteBackend } from "../../backends/sqlite/sqlite_backend.ts";
import { onFile, refused, sleep } from "../support/scratch.ts";
import { checkCodes, goesOn, notesOf, reopen } from "./aftermath.ts";
import type { Plan } from "./plan.ts";
import { noRecorder, run, scratchFolder } from "./record.ts";
import type { Note } from "./records.ts";
import { report } from "./table.ts";

const SEED = Number(process.env.THREADLOG_SEED ?? 1);
const { EFBIG, EIO, ENOSPC, EROFS } = constants.errno;

interface Group {
  /** Where, and what: see shim.c. Counted from the first call on the file, the creation included. */
  readonly faults: readonly string[];
  readonly slowUs?: number;
  /** How often the log is opened. */
  readonly sessions?: number;
}

const GROUPS: Readonly<Record<string, Group>> = {
  "a kill": {
    faults: [
      ...[0, 1, 9, 30, 31, 88].map((n) => `kill:write.wal:${n}:0:once`),
      ...[0, 1, 3, 5, 12].map((n) => `kill:sync.wal:${n}:0:once`),
      ...[2, 8, 21].map((n) => `kill:write.db:${n}:0:once`),
      ...[1, 3].map((n) => `kill:sync.db:${n}:0:once`),
    ],
  },
  "a failed write": {
    faults: [
      ...[40, 41, 90].map((n) => `fail:write.wal:${n}:${EIO}:once`),
      ...[40, 55].map((n) => `fail:write.wal:${n}:${EIO}:sticky`),
      ...[6, 20].map((n) => `fail:write.db:${n}:${EIO}:once`),
    ],
  },
  "a failed sync": {
    faults: [
      ...[6, 9, 14].map((n) => `fail:sync.wal:${n}:${EIO}:once`),
      ...[6, 9].map((n) => `fail:sync.wal:${n}:${EIO}:sticky`),
      `fail:sync.wal:7:${ENOSPC}:once`,
      `fail:sync.folder:0:${EIO}:sticky`,
      `fail:sync.db:3:${EIO}:once`,
      `fail:sync.db:3:${EIO}:sticky`,
    ],
  },
  "a full disk": {
    faults: [
      ...[40, 41, 90].map((n) => `fail:write.wal:${n}:${ENOSPC}:once`),
      ...[40, 55].map((n) => `fail:write.wal:${n}:${ENOSPC}:sticky`),
      `fail:write.wal:41:${ENOSPC}:4`,
      `fail:write.db:20:${ENOSPC}:sticky`,
    ],
  },
  "a file that may not grow": {
    faults: [
      `fail:write.wal:41:${EFBIG}:once`,
      `fail:write.wal:55:${EFBIG}:sticky`,
      `fail:write.db:20:${EFBIG}:sticky`,
    ],
  },
  "a file system that becomes read-only": {
    faults: [
      ...[0, 25, 70, 130].map((n) => `fail:change.any:${n}:${EROFS}:sticky`),
      `fail:change.any:71:${EROFS}:once`,
      `fail:write.wal:41:${EROFS}:once`,
      `fail:sync.wal:6:${EROFS}:once`,
    ],
  },
  "a failure while the log is created": {
    faults: [
      `fail:write.db:0:${EIO}:once`,
      `fail:write.wal:0:${EIO}:once`,
      `fail:write.wal:3:${ENOSPC}:once`,
      `fail:sync.wal:0:${EIO}:once`,
      `fail:change.any:0:${EROFS}:once`,
    ],
    sessions: 2,
  },
  "a kill, or a failure, while syncs are slow": {
    faults: [`kill:sync.wal:5:0:once`, `kill:write.wal:61:0:once`, `fail:sync.wal:6:${EIO}:once`],
    slowUs: 3000,
  },
  "a short write": {
    faults: [
      ...[40, 41, 90].map((n) => `short:write.wal:${n}:0:once`),
      `short:write.wal:30:0:sticky`,
      `short:write.db:6:0:sticky`,
    ],
  },
};

/** Resolves to whether the writer was killed: how often a checkpoint syncs depends on how it is timed. */
async function inject(
  fault: string,
  syncMode: "inline" | "async",
  { sessions = 1, slowUs = 0 }: Group,
): Promise<boolean> {
  const folder = scratchFolder();
  const path = join(folder, "log.db");
  const plan: Plan = { seed: SEED, bytes: 300 };
  const rest = { plan, durability: "full", duePages: 10, first: 0, steps: 40, lanes: 2, watch: false } as const;
  try {
    const ran = await run({ path, ...rest, sessions, syncMode }, { fault, slowUs, recording: false });
    const notes = notesOf(ran);
    if (!fault.startsWith("kill") || ran.code !== null) assert.equal(ran.code, 0, ran.errors);
    checkCodes(notes);
    checkRefusals(fault, notes, sessions);
    await reopen(path, plan, notes);
    return ran.code === null;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function checkRefusals(fault: string, notes: readonly Note[], sessions: number): void {
  const refused = notes.findIndex(({ kind }) => kind === "refused");
  if (fault.startsWith("short")) assert.equal(refused, -1, "a short write is gone on with");
  // A write that fails leaves nothing: once there is space again, so is the log. So it is if it could not be created.
  if (sessions > 1 || /^fail:write.wal.*:(once|\d)$/.test(fault)) {
    assert.ok(refused >= 0, "what failed is not acknowledged");
    assert.ok(goesOn(notes), "the log goes on");
  }
  // After a failed sync, whoever made it, nothing can be promised any more; nor where nothing can be written.
  if (sessions === 1 && /^fail:(sync.(wal|folder)|change.*sticky)/.test(fault) && refused >= 0) {
    const after = notes.slice(refused + 1).filter(({ kind }) => kind === "acknowledged");
    assert.ok(after.length <= 1, `${after.length} acknowledged after what failed for good`);
  }
  // (What fails once may be tried again by SQLite itself.)
  if (/^fail:(sync.folder|change).*sticky/.test(fault)) assert.ok(refused >= 0, "what can't be written is refused");
}

describe("nothing acknowledged is lost by", { skip: noRecorder }, () => {
  for (const [name, group] of Object.entries(GROUPS)) {
    const { faults } = group;
    it(`${name}, at ${faults.length} calls`, async () => {
      const failures: string[] = [];
      let killed = 0;
      for (const [index, fault] of faults.entries()) {
        const syncMode = index % 2 === 0 ? "async" : "inline";
        try {
          if (await inject(fault, syncMode, group)) killed++;
        } catch (error) {
          failures.push(`${fault} (${syncMode}): ${String((error as Error).message).slice(0, 400)}`);
        }
      }
      report({ part: "fault", name, states: faults.length, bad: failures.length });
      assert.deepEqual(failures, []);
      if (name === "a kill") assert.ok(killed > faults.length / 2, `only ${killed} of ${faults.length} were killed`);
    });
  }
});

describe("an erasure that can't be finished", () => {
  it(
    "is told to whoever erased, and to nobody whose append was in the same transaction",
    onFile(async (log) => {
      const { append, purge } = SqliteBackend.prototype;
      await log.thread("scratch").put("k", 1);
      const held = Promise.withResolvers<void>();
      SqliteBackend.prototype.append = async function (requests) {
        await held.promise;
        return await append.call(this, requests);
      };
      SqliteBackend.prototype.purge = () => Promise.reject(new Error("no space"));
      try {
        const first = log.thread("first").put("k", 0);
        await sleep(0);
        const erasing = refused("storage", () => log.thread("scratch").erase());
        const others = ["first", "other", "another"].map((name) => log.thread(name).put("k", 1));
        await sleep(20);
        held.resolve();
        await Promise.all([erasing, first, ...others]);
      } finally {
        SqliteBackend.prototype.append = append;
        SqliteBackend.prototype.purge = purge;
      }
    }),
  );
});
