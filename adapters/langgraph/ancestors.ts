/**
 * The line of checkpoints that a checkpoint comes from, and what is pending along it.
 *
 * @module
 */

import type { DeltaChannelHistory } from "@langchain/langgraph-checkpoint";
import { isBuiltIn } from "../../log/event.ts";
import { compareNames } from "../../log/ids.ts";
import type { Entry } from "../../log/view.ts";
import { keyOf } from "./address.ts";
import { type CheckpointEntry, ownsValue, type StoredCheckpoint } from "./checkpoint_entry.ts";
import type { CheckpointReader } from "./checkpoint_reader.ts";
import { loadWrites, mergeWrites, type StoredWrites } from "./pending_writes.ts";
import { load, type Serde, type Stored } from "./value_codec.ts";

/** Events fetched at first; then four times as many each time. */
const FIRST_PAGE = 16;
const MAX_PAGE = 256;

/**
 * The ancestors of a checkpoint, the nearest first. A parent is put before its child, so that one pass backward through
 * the thread meets them all.
 */
export async function* ancestorsOf(reader: CheckpointReader, entry: CheckpointEntry): AsyncGenerator<CheckpointEntry> {
  const seen = new Set([entry.key]);
  let wanted = entry.value.parent;
  let to = entry.version - 1;
  let size = FIRST_PAGE;
  while (wanted !== null && !seen.has(wanted)) {
    while (to > 0 && wanted !== null) {
      let count = 0;
      for await (const event of reader.checkpoints.replay({ to, limit: size, reverse: true })) {
        count++;
        to = event.version - 1;
        if (!isBuiltIn(event) || event.type !== "set" || event.key !== wanted || seen.has(wanted)) continue;
        const { key } = event;
        const value = event.value as StoredCheckpoint;
        seen.add(key);
        yield { ...event, key, value };
        wanted = value.parent;
        if (wanted === null) return;
      }
      if (count < size) to = 0;
      size = Math.min(size * 4, MAX_PAGE);
    }
    if (wanted === null || seen.has(wanted)) return;
    // It was put after its child, or not at all.
    const later = await reader.entry(wanted);
    if (later === undefined) return;
    seen.add(wanted);
    yield later;
    wanted = later.value.parent;
    to = later.version - 1;
  }
}

/** A checkpoint and its ancestors. */
export async function* lineOf(reader: CheckpointReader, entry: CheckpointEntry): AsyncGenerator<CheckpointEntry> {
  yield entry;
  yield* ancestorsOf(reader, entry);
}

/**
 * What each channel's line of checkpoints wrote since the last value that one of them keeps, oldest first. Two passes in
 * all, however many ancestors and channels: one over the checkpoints, one over their writes.
 */
export async function deltaHistory(
  reader: CheckpointReader,
  serde: Serde,
  entry: CheckpointEntry | undefined,
  channels: readonly string[],
): Promise<Record<string, DeltaChannelHistory>> {
  const line: CheckpointEntry[] = [];
  const owners = new Map<string, number>();
  if (entry !== undefined) {
    const open = new Set(channels);
    for await (const ancestor of ancestorsOf(reader, entry)) {
      for (const channel of open) {
        if (!ownsValue(ancestor, channel)) continue;
        owners.set(channel, line.length);
        open.delete(channel);
      }
      line.push(ancestor);
      if (open.size === 0) break;
    }
  }
  const writes = await writesOf(reader, line.map(({ key }) => key));
  const history: [string, DeltaChannelHistory][] = await Promise.all(channels.map(async (channel) => {
    const owner = owners.get(channel);
    const reach = owner ?? line.length - 1;
    const placed = line.slice(0, reach + 1).reverse()
      .flatMap(({ key }) => mergeWrites(writes.get(key) ?? []))
      .filter(({ write }) => write[1] === channel);
    const found: DeltaChannelHistory = { writes: await loadWrites(serde, placed) };
    if (owner !== undefined) found.seed = await load(serde, await storedValue(reader, line[owner]!, channel));
    return [channel, found];
  }));
  return Object.fromEntries(history);
}

/** The stored value that a checkpoint gave a channel. */
async function storedValue(reader: CheckpointReader, entry: CheckpointEntry, channel: string): Promise<Stored> {
  const place = entry.value.channels.find(([name]) => name === channel)![2];
  return typeof place === "object" ? place as Stored : await reader.valueAt(channel, entry.position);
}

/** The writes of several checkpoints, in one pass over the keys from the least of their ids to the greatest. */
async function writesOf(
  reader: CheckpointReader,
  ids: readonly string[],
): Promise<Map<string, Entry<string, StoredWrites>[]>> {
  const found = new Map<string, Entry<string, StoredWrites>[]>();
  if (ids.length === 0) return found;
  const byKey = new Map(ids.map((id) => [keyOf(id), id]));
  const keys = [...byKey.keys()].sort(compareNames);
  const last = keys.at(-1)!;
  // The end of the first label, U+0000, is the least that can follow it.
  for await (const entry of reader.writes.entries({ after: keys[0]!.slice(0, -1) })) {
    const start = entry.key.slice(0, entry.key.indexOf("\0") + 1);
    if (compareNames(start, last) > 0) break;
    const id = byKey.get(start);
    if (id === undefined) continue;
    const entries = found.get(id) ?? [];
    entries.push(entry as Entry<string, StoredWrites>);
    found.set(id, entries);
  }
  return found;
}
