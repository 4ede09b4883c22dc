/**
 * The writer is killed, or its disk fails, at the Nth write or sync. Refusals are typed, the log goes on or has clearly
 * stopped, and reopening finds all that was acknowledged; trying again what was tried gives each event once.
 */
import assert from "node:assert/strict";
import { constants } from "node:os";
import { rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { type Event, openLog } from "../../mod.ts";
import { all } from "../support/scratch.ts";
import { lineOf } from "./history.ts";
import { perform, type Plan, stepOf, THREADS } from "./plan.ts";
import { noRecorder, type Run, run, scratchFolder } from "./record.ts";
import type { Note } from "./records.ts";
import { report } from "./table.ts";

const SEED = Number(process.env.THREADLOG_SEED ?? 1);
const { EIO, ENOSPC } = constants.errno;
/** What a disk that fails may make of an append. */
const CODES = ["outcome_unknown", "storage"];

/** Where, and what. Counted from the first call on the file, the creation included. */
const FAULTS: readonly string[] = [
  ...[0, 1, 9, 30, 31, 88].map((n) => `kill:write.wal:${n}:0:once`),
  ...[0, 1, 3, 5, 12].map((n) => `kill:sync.wal:${n}:0:once`),
  ...[2, 8, 21].map((n) => `kill:write.db:${n}:0:once`),
  ...[1, 3].map((n) => `kill:sync.db:${n}:0:once`),
  ...[40, 41, 90].map((n) => `fail:write.wal:${n}:${EIO}:once`),
  ...[40, 55].map((n) => `fail:write.wal:${n}:${EIO}:sticky`),
  ...[40, 41, 90].map((n) => `fail:write.wal:${n}:${ENOSPC}:once`),
  ...[40, 55].map((n) => `fail:write.wal:${n}:${ENOSPC}:sticky`),
  ...[6, 9, 14].map((n) => `fail:sync.wal:${n}:${EIO}:once`),
  ...[6, 9].map((n) => `fail:sync.wal:${n}:${EIO}:sticky`),
  ...[6, 20].map((n) => `fail:write.db:${n}:${EIO}:once`),
  `fail:write.db:20:${ENOSPC}:sticky`,
  `fail:sync.db:3:${EIO}:once`,
  `fail:sync.db:3:${EIO}:sticky`,
  ...[40, 41, 90].map((n) => `short:write.wal:${n}:0:once`),
];

function notesOf({ actions }: Run): Note[] {
  return actions.flatMap((action) => action.what === "note" ? [action.note] : []);
}

/** Resolves to whether the writer was killed: how often a checkpoint syncs depends on how it is timed. */
async function inject(fault: string, syncMode: "inline" | "async"): Promise<boolean> {
  const folder = scratchFolder();
  const path = join(folder, "log.db");
  const plan: Plan = { seed: SEED, bytes: 300 };
  const rest = { plan, durability: "full", duePages: 10, first: 0, steps: 40, sessions: 1, lanes: 2 } as const;
  try {
    const ran = await run({ path, ...rest, syncMode, watch: false }, { fault, recording: false });
    const notes = notesOf(ran);
    if (!fault.startsWith("kill") || ran.code !== null) assert.equal(ran.code, 0, ran.errors);
    for (const note of notes) if (note.kind === "refused") assert.ok(CODES.includes(note.code), JSON.stringify(note));
    checkRefusals(fault, notes);
    await reopen(path, plan, notes);
    return ran.code === null;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function checkRefusals(fault: string, notes: readonly Note[]): void {
  const refused = notes.findIndex(({ kind }) => kind === "refused");
  const goesOn = notes.slice(refused).some(({ kind }) => kind === "acknowledged");
  if (fault.startsWith("short")) assert.equal(refused, -1, "a short write is gone on with");
  // A write that fails leaves nothing: once there is space again, so is the log.
  if (/^fail:write.wal.*once/.test(fault)) {
    assert.ok(refused >= 0, "a failed append is not acknowledged");
    assert.ok(goesOn, "the log goes on");
  }
  // After a failed sync, whoever made it, nothing can be promised any more.
  if (/^fail:sync.wal/.test(fault) && refused >= 0) {
    const after = notes.slice(refused + 1).filter(({ kind }) => kind === "acknowledged");
    assert.ok(after.length <= 1, `${after.length} acknowledged after a failed sync`);
  }
}

/** All that was acknowledged is there; what was tried is there whole or not; trying again converges. */
async function reopen(path: string, plan: Plan, notes: readonly Note[]): Promise<void> {
  await using log = await openLog(path, { durability: "normal" });
  const tried = notes.flatMap((note) => note.kind === "tried" ? [note.id] : []);
  const told = new Map(notes.flatMap((note) => note.kind === "acknowledged" ? [[note.id, note.events!]] : []));
  const erased = () => tried.some((id) => stepOf(plan, id).kind === "erase");
  const inspect = async () => {
    const byId = new Map<string, Event[]>();
    const events = await all(log.read());
    for (const event of events) byId.set(event.id, [...byId.get(event.id) ?? [], event]);
    for (const [id, acknowledged] of told) {
      const kept = acknowledged.filter(({ thread }) => thread !== "scratch" || !erased());
      if (kept.length > 0) assert.deepEqual(byId.get(id)?.map(lineOf), kept.map(lineOf), `${id} was acknowledged`);
    }
    for (const [id, found] of byId) {
      if (id.startsWith("@")) continue;
      assert.ok(tried.includes(id), `${id} was tried`);
      assert.equal(found.length, stepOf(plan, id).kind === "batch" ? THREADS.length : 1, `${id} is whole`);
    }
    if (!erased()) assert.deepEqual(events.map(({ position }) => position), events.map((_, i) => i + 1));
    const verified = await log.verify();
    assert.ok(verified.ok, JSON.stringify(verified.first));
  };
  await inspect();
  for (const id of tried) {
    const { kind } = stepOf(plan, id);
    if (kind === "erase" || (kind === "put" && erased())) continue;
    const events = await perform(log, plan, id);
    const before = told.get(id);
    if (before !== undefined) assert.deepEqual(events.map(lineOf), before.map(lineOf), `${id} again`);
    told.set(id, events);
  }
  await inspect();
}

describe("faults", { skip: noRecorder }, () => {
  for (const kind of ["kill", "fail", "short"]) {
    const faults = FAULTS.filter((fault) => fault.startsWith(kind));
    it(`${kind} at ${faults.length} calls`, async () => {
      const failures: string[] = [];
      let killed = 0;
      for (const [index, fault] of faults.entries()) {
        const syncMode = index % 2 === 0 ? "async" : "inline";
        try {
          if (await inject(fault, syncMode)) killed++;
        } catch (error) {
          failures.push(`${fault} (${syncMode}): ${String((error as Error).message).slice(0, 400)}`);
        }
      }
      report({ part: "fault", name: kind, states: faults.length, bad: failures.length });
      assert.deepEqual(failures, []);
      if (kind === "kill") assert.ok(killed > faults.length / 2, `only ${killed} of ${faults.length} were killed`);
    });
  }
});
