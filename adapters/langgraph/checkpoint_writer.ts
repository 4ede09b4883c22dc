/**
 * Writing checkpoints: one append each, of the entry and the values of the channels that changed.
 *
 * @module
 */

import { equal } from "../../log/equal.ts";
import { ConflictError, ThreadlogError } from "../../log/errors.ts";
import type { Core } from "../../log/core.ts";
import { parseThreadId } from "../../log/ids.ts";
import { coreOf, type Log } from "../../log/log.ts";
import { parseExpect, setInput } from "../../log/writes.ts";
import type { MaybePromise } from "../../projections/keyspace.ts";
import {
  type CheckpointEntry,
  type EncodedCheckpoint,
  planCheckpoint,
  type PlannedCheckpoint,
  type StoredCheckpoint,
} from "./checkpoint_entry.ts";
import { placeOf } from "./checkpoint_history.ts";
import type { CheckpointReader } from "./checkpoint_reader.ts";
import type { Handed } from "./turns.ts";
import { whenAll } from "./value_codec.ts";

/** Puts checkpoints. */
export class CheckpointWriter {
  readonly #core: Core;

  constructor(log: Log) {
    this.#core = coreOf(log);
  }

  /** Hands a checkpoint to the log: at once, unless it or its parent must be read first, or is on its way still. */
  put(
    reader: CheckpointReader,
    encoded: EncodedCheckpoint,
    parentId: string | undefined,
  ): MaybePromise<Handed<void>> {
    const needed = [entryOf(reader, encoded.id), parentId === undefined ? undefined : entryOf(reader, parentId)];
    return whenAll(needed, ([earlier, parent]) => {
      const planned = planCheckpoint(encoded, parentId, parent);
      const result = earlier === undefined
        ? this.#append(reader, encoded.id, planned)
        : this.#replace(reader, encoded.id, planned);
      const { underway } = reader;
      underway.set(encoded.id, result);
      const done = () => {
        if (underway.get(encoded.id) === result) underway.delete(encoded.id);
      };
      result.then(done, done);
      return { result };
    });
  }

  async #append(reader: CheckpointReader, id: string, planned: PlannedCheckpoint): Promise<void> {
    try {
      await this.#commit(reader, id, planned.entry, planned.events, { id });
    } catch (error) {
      if (!(error instanceof ThreadlogError && error.code === "id_conflict")) throw error;
      await this.#replace(reader, id, planned);
    }
  }

  /** Puts a checkpoint whose id is there already. The same again is a retry; anything else takes its place. */
  async #replace(reader: CheckpointReader, id: string, planned: PlannedCheckpoint): Promise<void> {
    while (true) {
      const head = await reader.checkpoints.head();
      const earlier = await reader.entry(id);
      if (earlier !== undefined && await isSame(reader, earlier, planned)) return;
      const newest = await reader.entry(undefined);
      const entry: StoredCheckpoint = earlier === undefined || newest === undefined
        ? planned.entry
        : { ...planned.entry, again: { position: placeOf(earlier), latest: newest.key } };
      try {
        return await this.#commit(reader, id, entry, planned.events, { expect: head });
      } catch (error) {
        if (!(error instanceof ConflictError)) throw error;
      }
    }
  }

  async #commit(
    reader: CheckpointReader,
    id: string,
    entry: StoredCheckpoint,
    events: PlannedCheckpoint["events"],
    options: { readonly id?: string; readonly expect?: { readonly version: number } },
  ): Promise<void> {
    const core = this.#core;
    const checkpoints = parseThreadId(reader.checkpoints.id);
    const channels = events.length === 0 ? checkpoints : parseThreadId(reader.channels.id);
    const inputs = events.map(([channel, stored]) => setInput(core, channels, channel, stored, {}));
    // Last, so that its position is one at which each channel has the value that it had for this checkpoint.
    inputs.push(setInput(core, checkpoints, id, entry, { id: options.id }));
    let bytes = 0;
    for (const { value } of inputs) bytes += value!.length;
    const stored = await core.commit(inputs, parseExpect(checkpoints, options.expect));
    reader.remember(stored.at(-1)!.position, bytes, { entry, events });
  }
}

/** A checkpoint, if need be once it has been put. */
function entryOf(reader: CheckpointReader, id: string): MaybePromise<CheckpointEntry | undefined> {
  const underway = reader.underway.get(id);
  // Where that failed, it is not there: the failure shows to whoever put it.
  return underway === undefined ? reader.entry(id) : underway.catch(() => {}).then(() => reader.entry(id));
}

/** Whether a checkpoint is stored as it was planned, values included. */
async function isSame(
  reader: CheckpointReader,
  earlier: CheckpointEntry,
  planned: PlannedCheckpoint,
): Promise<boolean> {
  const { again: _, ...value } = earlier.value;
  if (!equal(value, planned.entry)) return false;
  for (const [channel, stored] of planned.events) {
    if (!equal(await reader.valueAt(channel, earlier.position), stored)) return false;
  }
  return true;
}
