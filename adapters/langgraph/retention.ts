/**
 * Taking checkpoints away: by age, by number, by run.
 *
 * @module
 */

import { invalid } from "../../log/errors.ts";
import type { Log } from "../../log/log.ts";
import { keyOf } from "./address.ts";
import { ancestorsOf } from "./ancestors.ts";
import type { CheckpointEntry, StoredCheckpoint } from "./checkpoint_entry.ts";
import { historyOf } from "./checkpoint_history.ts";
import type { CheckpointReader } from "./checkpoint_reader.ts";
import type { WritesState } from "./pending_writes.ts";

/** Which checkpoints stay. */
export type PruneOptions =
  /** The newest so many of each namespace, at least 1. */
  | { readonly keepLast: number }
  /** Those put at or after this time, and the newest of each namespace. */
  | { readonly olderThan: Date };

/** Decides on the checkpoints of a namespace, which come newest first. */
type Staying = (entry: CheckpointEntry, index: number) => boolean | Promise<boolean>;

/** Checks the options of a pruning. */
export function stayingOf(options: PruneOptions): Staying {
  if ("keepLast" in options) {
    const { keepLast } = options;
    if (Number.isSafeInteger(keepLast) && keepLast >= 1) return (_, index) => index < keepLast;
  } else {
    const time = options.olderThan instanceof Date ? options.olderThan.getTime() : NaN;
    if (!Number.isNaN(time)) return (entry, index) => index === 0 || entry.time >= time;
  }
  throw invalid("Pruning needs a number or a time", "options", "As in { keepLast: 10 } or { olderThan: new Date() }.");
}

/** Events deleted in one transaction. */
const BATCH = 500;

/** Takes away the checkpoints of a namespace that need not stay, with their writes. Resolves with how many went. */
export async function prune(
  log: Log,
  reader: CheckpointReader,
  stays: Staying,
): Promise<number> {
  const kept: CheckpointEntry[] = [];
  const going = new Map<string, CheckpointEntry>();
  let index = 0;
  for await (const entry of historyOf(reader.checkpoints)) {
    if (await stays(entry, index++)) kept.push(entry);
    else going.set(entry.key, entry);
  }
  for (const entry of kept) {
    for (const id of await neededBy(reader, entry)) going.delete(id);
  }
  await remove(log, reader, [...going.keys()]);
  return going.size;
}

/** The ancestors that a checkpoint can't be read without: those whose writes its delta channels are made of. */
async function neededBy(reader: CheckpointReader, entry: CheckpointEntry): Promise<string[]> {
  const open = new Set<string>();
  for (const [name, version, place] of entry.value.channels) if (version !== null && place === null) open.add(name);
  const line: string[] = [];
  const needed: string[] = [];
  if (open.size === 0) return needed;
  for await (const ancestor of ancestorsOf(reader, entry)) {
    line.push(ancestor.key);
    if (await writesTo(reader, ancestor.key, open)) needed.push(...line.splice(0));
    for (const [name, , place, changed] of ancestor.value.channels) {
      if (place === null || !changed || !open.delete(name)) continue;
      if (needed.length > 0) needed.push(...line.splice(0));
    }
    if (open.size === 0) break;
  }
  return needed;
}

async function writesTo(reader: CheckpointReader, id: string, channels: ReadonlySet<string>): Promise<boolean> {
  for await (const { value } of reader.writes.entries({ prefix: keyOf(id) })) {
    if (value.writes.some(([, channel]) => channels.has(channel as string))) return true;
  }
  return false;
}

/** Deletes checkpoints and their writes, the oldest first: whatever is there always has what it is made of. */
async function remove(log: Log, reader: CheckpointReader, ids: readonly string[]): Promise<void> {
  let batch: { thread: "checkpoints" | "writes"; key: string }[] = [];
  const flush = async () => {
    const deletions = batch;
    batch = [];
    await log.batch((into) => {
      const checkpoints = into.thread<Record<string, StoredCheckpoint>>(reader.checkpoints.id);
      const writes = into.thread<WritesState>(reader.writes.id);
      for (const { thread, key } of deletions) (thread === "writes" ? writes : checkpoints).delete(key);
    });
  };
  for (const id of ids.toReversed()) {
    for await (const key of reader.writes.keys({ prefix: keyOf(id) })) batch.push({ thread: "writes", key });
    batch.push({ thread: "checkpoints", key: id });
    if (batch.length >= BATCH) await flush();
  }
  if (batch.length > 0) await flush();
}
