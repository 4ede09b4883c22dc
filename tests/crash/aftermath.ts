/**
 * What must hold when a writer's disk has failed, or it was killed: for what it was told, and for what it left.
 */
import assert from "node:assert/strict";
import { type Event, openLog } from "../../mod.ts";
import { all } from "../support/scratch.ts";
import { lineOf } from "./history.ts";
import { perform, type Plan, stepOf, THREADS } from "./plan.ts";
import type { Run } from "./record.ts";
import type { Note } from "./records.ts";

/** What a disk that fails may make of an append. Only of the first may something be kept. */
const CODES = ["outcome_unknown", "storage", "read_only"];

/** What a writer noted. */
export function notesOf({ actions }: Run): Note[] {
  return actions.flatMap((action) => action.what === "note" ? [action.note] : []);
}

/** Every refusal has a code that tells what to do. */
export function checkCodes(notes: readonly Note[]): void {
  for (const note of notes) if (note.kind === "refused") assert.ok(CODES.includes(note.code), JSON.stringify(note));
}

/** Whether something was refused, and something acknowledged later. */
export function goesOn(notes: readonly Note[]): boolean {
  const refused = notes.findIndex(({ kind }) => kind === "refused");
  return refused >= 0 && notes.slice(refused).some(({ kind }) => kind === "acknowledged");
}

/** All that was acknowledged is there; what was tried is there whole or not; trying again converges. */
export async function reopen(path: string, plan: Plan, notes: readonly Note[]): Promise<void> {
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
  const unkept = notes.flatMap((note) => note.kind === "refused" && note.code !== "outcome_unknown" ? [note.id] : []);
  for (const { id } of await all(log.read())) {
    assert.ok(!unkept.includes(id), `${id} was refused for certain, and kept`);
  }
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
