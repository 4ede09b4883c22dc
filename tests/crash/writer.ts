/**
 * The program that is recorded, killed, and whose disk fails: it writes to a log as its task says and notes, in the
 * recorder's own file, what it tries, what is acknowledged, what can be seen, and what is refused.
 */
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from "node:fs";
import process from "node:process";
import { type Log, ThreadlogError } from "../../mod.ts";
import { openTuned } from "../../log/open.ts";
import { all } from "../support/scratch.ts";
import { perform, tally } from "./plan.ts";
import { encodeNote, type Note, type Task } from "./records.ts";

const task: Task = JSON.parse(process.argv[2]!);
const record = openSync(task.record, "a");
/** Beyond this a writer that gets nothing but refusals ends. */
const MAX_REFUSALS = 12;
const REFUSALS_BEFORE_SPACE = 4;
let next = task.first;
let refusals = 0;

function note(note: Note): void {
  const bytes = encodeNote(note);
  // One write, so that it lies in order between the records of the shim.
  if (writeSync(record, bytes) !== bytes.length) throw new Error("the recorder's disk is full");
}

function refused(during: string, error: unknown): void {
  refusals++;
  const known = error instanceof ThreadlogError;
  note({ kind: "refused", id: during, code: known ? error.code : "untyped", message: String(error) });
  if (refusals === REFUSALS_BEFORE_SPACE && task.ballast !== undefined) rmSync(task.ballast);
}

/** The mutant that acknowledges first and syncs afterwards. */
function syncLate(): void {
  const descriptor = openSync(`${task.path}-wal`, "r+");
  fdatasyncSync(descriptor);
  closeSync(descriptor);
}

async function step(log: Log, id: string): Promise<void> {
  note({ kind: "tried", id });
  const promise = perform(log, task.plan, id, task.mutant === "split");
  if (task.mutant === "eager") note({ kind: "acknowledged", id });
  const events = await promise;
  note({ kind: "acknowledged", id, events });
  if (task.mutant === "late") syncLate();
}

/** One of several loops that append at once. Alone or together, an id is used by one of them only. */
async function lane(log: Log, end: number): Promise<void> {
  while (next < end && refusals < MAX_REFUSALS) {
    const id = `s${next++}`;
    try {
      await step(log, id);
    } catch (error) {
      refused(id, error);
    }
  }
}

/** Notes what a subscriber is told: nobody may act on what a power cut could take back. */
async function watch(log: Log, after: number, signal: AbortSignal): Promise<void> {
  try {
    for await (const { position } of log.subscribe({ after, signal })) note({ kind: "seen", position });
  } catch (error) {
    refused("subscription", error);
  }
}

async function session(end: number): Promise<void> {
  const durability = task.durability;
  await using log = await openTuned(task.path, { durability }, { syncMode: task.syncMode, duePages: task.duePages });
  if (task.first > 0) note({ kind: "found", events: await all(log.read()) });
  await log.project(tally);
  const over = new AbortController();
  const watching = task.watch ? watch(log, await log.head(), over.signal) : undefined;
  await Promise.all(Array.from({ length: task.lanes }, () => lane(log, end)));
  over.abort();
  await watching;
}

for (let n = 1; n <= task.sessions && refusals < MAX_REFUSALS; n++) {
  try {
    await session(task.first + Math.ceil(task.steps * n / task.sessions));
  } catch (error) {
    refused("session", error);
  }
}
note({ kind: "ended" });
