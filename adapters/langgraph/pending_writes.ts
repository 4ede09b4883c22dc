/**
 * Pending writes: what the tasks of a superstep have written so far.
 *
 * Each `putWrites` appends entries under keys of its own, so that it needs neither to read nor to wait, whoever else is
 * writing. Who wins is settled by the order of the log: for an index of a task the first write counts, for a special
 * channel (an error, an interrupt, a resume) the last.
 *
 * @module
 */

import {
  type CheckpointPendingWrite,
  compareWritesSortKeys,
  type PendingWrite,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";
import type { Core } from "../../log/core.ts";
import { ThreadlogError } from "../../log/errors.ts";
import type { ThreadPath } from "../../log/ids.ts";
import type { Entry, ThreadView } from "../../log/view.ts";
import { setInput } from "../../log/writes.ts";
import type { MaybePromise } from "../../projections/keyspace.ts";
import { keyOf } from "./address.ts";
import { dump, load, type Serde, type Stored, whenAll } from "./value_codec.ts";

/** What one `putWrites` wrote, as an entry holds it. */
export interface StoredWrites {
  readonly task: string;
  readonly path: string;
  readonly writes: readonly (readonly [index: number, channel: string, value: Stored])[];
}

/** The state of a thread of writes. */
export type WritesState = Record<string, StoredWrites>;

/** Entries to append. */
export interface PlannedWrites {
  readonly entries: readonly { readonly key: string; readonly value: StoredWrites; readonly id: string | undefined }[];
}

/** Encodes writes and names their entries; a promise of it only where a serializer must be waited for. */
export function planWrites(
  serde: Serde,
  checkpointId: string,
  writes: readonly PendingWrite[],
  task: string,
  path: string,
): MaybePromise<PlannedWrites> {
  // All of it before the first await: later changes by the caller must not be seen.
  const channels = writes.map(([channel]) => channel);
  const values = writes.map(([, value]) => dump(serde, value));
  return whenAll(values, (values) => nameWrites(checkpointId, channels, values, task, path));
}

function nameWrites(
  checkpointId: string,
  channels: readonly string[],
  values: readonly Stored[],
  task: string,
  path: string,
): PlannedWrites {
  const regular: [number, string, Stored][] = [];
  const special = new Map<number, [number, string, Stored]>();
  for (let i = 0; i < channels.length; i++) {
    const channel = channels[i]!;
    const index = Object.hasOwn(WRITES_IDX_MAP, channel) ? WRITES_IDX_MAP[channel]! : i;
    const write: [number, string, Stored] = [index, channel, values[i]!];
    if (index < 0) special.set(index, write);
    else regular.push(write);
  }
  const entries = [...special.values()].map((write) => ({
    key: keyOf(checkpointId, path, task, String(write[0])),
    value: { task, path, writes: [write] },
    id: undefined as string | undefined,
  }));
  if (regular.length > 0) {
    const indexes = showIndexes(regular.map(([index]) => index));
    entries.push({
      key: keyOf(checkpointId, path, task, indexes),
      value: { task, path, writes: regular },
      // Who writes the same indexes again is told that they are there already.
      id: keyOf(checkpointId, task, indexes),
    });
  }
  return { entries };
}

/** Runs of indexes: "0-2.4" is 0, 1, 2, 4. */
function showIndexes(indexes: readonly number[]): string {
  const runs: string[] = [];
  for (let i = 0; i < indexes.length;) {
    let end = i;
    while (end + 1 < indexes.length && indexes[end + 1] === indexes[end]! + 1) end++;
    runs.push(end === i ? `${indexes[i]}` : `${indexes[i]}-${indexes[end]}`);
    i = end + 1;
  }
  return runs.join(".");
}

/** Appends the entries, together. What is there already stays as it is. */
export async function appendWrites(core: Core, thread: ThreadPath, { entries }: PlannedWrites): Promise<void> {
  try {
    await core.commit(entries.map(({ key, value, id }) => setInput(core, thread, key, value, { id })), []);
  } catch (error) {
    if (!(error instanceof ThreadlogError) || error.code !== "id_conflict") throw error;
    const special = entries.filter(({ id }) => id === undefined);
    if (special.length > 0) await appendWrites(core, thread, { entries: special });
  }
}

/** A write and where it came from. */
interface Placed {
  readonly write: readonly [index: number, channel: string, value: Stored];
  readonly task: string;
  readonly path: string;
  readonly position: number;
}

/** The writes of one checkpoint, in the order in which the graph applies them. */
export function mergeWrites(entries: Iterable<Entry<string, StoredWrites>>): Placed[] {
  const kept = new Map<string, Placed>();
  for (const { value, position } of entries) {
    const { task, path, writes } = value;
    for (const write of writes as StoredWrites["writes"]) {
      const slot = `${write[0]} ${task}`;
      const other = kept.get(slot);
      const wins = other === undefined || (write[0] < 0 ? position > other.position : position < other.position);
      if (wins) kept.set(slot, { write, task, path, position });
    }
  }
  if (kept.size < 2) return [...kept.values()];
  return [...kept.values()].sort((a, b) =>
    compareWritesSortKeys([a.path, a.task, a.write[0]], [b.path, b.task, b.write[0]])
  );
}

/** The pending writes of a checkpoint; of one channel, if it is given. */
export async function readWrites(
  serde: Serde,
  thread: ThreadView<WritesState>,
  checkpointId: string,
  channel?: string,
): Promise<CheckpointPendingWrite[]> {
  const entries: Entry<string, StoredWrites>[] = [];
  for await (const entry of thread.entries({ prefix: keyOf(checkpointId) })) {
    entries.push(entry as Entry<string, StoredWrites>);
  }
  if (entries.length === 0) return [];
  const placed = mergeWrites(entries).filter(({ write }) => channel === undefined || write[1] === channel);
  return await loadWrites(serde, placed);
}

/** The writes with their values. */
export async function loadWrites(serde: Serde, placed: readonly Placed[]): Promise<CheckpointPendingWrite[]> {
  const values = await Promise.all(placed.map(({ write }) => load(serde, write[2])));
  return placed.map(({ task, write }, i) => [task, write[1], values[i]]);
}
