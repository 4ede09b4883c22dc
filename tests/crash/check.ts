/**
 * Opens what a power cut left, with the library itself, and says what is wrong with it.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { type Event, type Log, openLog } from "../../mod.ts";
import { all } from "../support/scratch.ts";
import type { Image } from "./disk.ts";
import { type History, lineOf } from "./history.ts";
import { perform, tally } from "./plan.ts";
import { SUFFIXES } from "./records.ts";

/** What must be there, at least. */
export interface Promised {
  /** The last position that was acknowledged. */
  readonly acknowledged: number;
  /** The last position that anybody was shown. */
  readonly seen: number;
}

/** A fault: a word for counting, and a sentence. */
export class Bad extends Error {
  readonly word: string;

  constructor(word: string, message: string) {
    super(`${word}: ${message}`);
    this.word = word;
  }
}

/** Writes an image where it can be opened; what was there before goes. */
export function place(image: Image, path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  for (const suffix of [...SUFFIXES, "-shm"]) rmSync(path + suffix, { force: true });
  image.forEach((bytes, file) => bytes === undefined || writeFileSync(path + SUFFIXES[file]!, bytes));
}

/** Holds a file against the history and what was promised. */
export async function check(path: string, history: History, promised: Promised, verify = true): Promise<void> {
  let log: Log;
  try {
    log = await openLog(path, { durability: "normal" });
  } catch (error) {
    throw new Bad("unopenable", String(error));
  }
  try {
    const position = await log.head();
    const { acknowledged, seen } = promised;
    if (position < acknowledged) throw new Bad("lost", `${acknowledged} was acknowledged, the log ends at ${position}`);
    if (position < seen) throw new Bad("unseen", `${seen} was shown, the log ends at ${position}`);
    if (!history.isWhole(position)) throw new Bad("half", `the log ends inside a batch, at ${position}`);
    await checkEvents(log, history, position, verify);
    await checkState(log, history, position);
    await goOn(log, history, position);
  } catch (error) {
    throw error instanceof Bad ? error : new Bad("unreadable", String((error as Error)?.stack ?? error));
  } finally {
    await log.close();
  }
}

async function checkEvents(log: Log, history: History, position: number, verify: boolean): Promise<void> {
  const events = await all(log.read());
  const expected = history.visible(position);
  if (events.length !== expected.length) throw new Bad("gap", `${events.length} events, not ${expected.length}`);
  events.forEach((event, i) => {
    const wanted = history.lines[expected[i]!.position - 1]!;
    if (lineOf(event) !== wanted) throw new Bad("changed", `${lineOf(event)} is not ${wanted}`);
  });
  if (!verify) return;
  const report = await log.verify();
  if (!report.ok) throw new Bad("unverified", JSON.stringify(report.first));
}

/** What the projections hold is what the history adds up to. */
async function checkState(log: Log, history: History, position: number): Promise<void> {
  for (const [name, keys] of history.moment(position).threads) {
    const found = new Map<string, unknown>();
    for await (const { key, value } of log.thread(name).entries()) found.set(key, value);
    const wrong = [...keys].find(([key, value]) => JSON.stringify(found.get(key)) !== JSON.stringify(value));
    if (wrong !== undefined || found.size !== keys.size) {
      throw new Bad("state", `${name} holds ${JSON.stringify([...found])}, not ${JSON.stringify([...keys])}`);
    }
  }
  const counts: Record<string, number> = {};
  for (const { type } of history.visible(position)) if (type !== "erase") counts[type] = (counts[type] ?? 0) + 1;
  const found = await (await log.project(tally)).state();
  const sorted = (counts: Readonly<Record<string, number>>) => JSON.stringify(Object.entries(counts).sort());
  if (sorted(found) !== sorted(counts)) throw new Bad("projection", `${sorted(found)}, not ${sorted(counts)}`);
}

/** Whoever does not know the outcome tries again; then the log goes on as if nothing had been. */
async function goOn(log: Log, history: History, position: number): Promise<void> {
  const last = history.events.slice(0, position).findLast(({ type, thread, version }) =>
    type !== "erase" && type !== "fork" && version > (history.moment(position).erased.get(`${thread}`) ?? 0)
  );
  if (last !== undefined) {
    const again = await perform(log, history.plan, last.id);
    expectSame("retry", again, history, again.at(-1)!.position);
    if (await log.head() !== position) throw new Bad("retry", `${last.id} was appended twice`);
  }
  const [following] = history.groupAt(position + 1);
  // Where a fork begins was decided before its turn came; an erasure writes the whole file anew.
  if (following === undefined || following.type === "fork" || following.type === "erase") {
    const { position: at } = await log.thread("afterwards").put("k", position);
    if (at !== position + 1) throw new Bad("going on", `position ${at} followed ${position}`);
    return;
  }
  expectSame("going on", await perform(log, history.plan, following.id), history, position + 1);
}

function expectSame(word: string, events: readonly Event[], history: History, from: number): void {
  const start = events.length === 0 ? from : events[0]!.position;
  const lines = history.groupAt(start).map(lineOf);
  if (start > from || events.map(lineOf).join() !== lines.join()) {
    throw new Bad(word, `${events.map(lineOf)} is not ${lines}`);
  }
}
