/**
 * Writing checkpoints: one append each, of the entry and the values of the channels that changed.
 *
 * @module
 */

import { equal } from "../../log/equal.ts";
import { ConflictError, ThreadlogError } from "../../log/errors.ts";
import type { Log } from "../../log/log.ts";
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
import type { Stored } from "./value_codec.ts";

/** Puts checkpoints, and knows which are on their way. */
export class CheckpointWriter {
  readonly #log: Log;
  readonly #underway = new Map<string, Promise<void>>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Hands a checkpoint to the log. Its parent may be on its way still. */
  async put(
    reader: CheckpointReader,
    encoded: EncodedCheckpoint,
    parentId: string | undefined,
  ): Promise<Handed<void>> {
    const [earlier, parent] = await Promise.all([
      this.#entry(reader, encoded.id),
      parentId === undefined ? undefined : this.#entry(reader, parentId),
    ]);
    const planned = planCheckpoint(encoded, parentId, parent);
    const result = earlier === undefined
      ? this.#append(reader, encoded.id, planned)
      : this.#replace(reader, encoded.id, planned);
    const name = nameOf(reader, encoded.id);
    this.#underway.set(name, result);
    const done = () => {
      if (this.#underway.get(name) === result) this.#underway.delete(name);
    };
    result.then(done, done);
    return { result };
  }

  /** A checkpoint, if need be once it has been put. */
  async #entry(reader: CheckpointReader, id: string): Promise<CheckpointEntry | undefined> {
    // Where that failed, it is not there: the failure shows to whoever put it.
    await this.#underway.get(nameOf(reader, id))?.catch(() => {});
    return await reader.entry(id);
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
    await this.#log.batch((batch) => {
      if (events.length > 0) {
        const channels = batch.thread<Record<string, Stored>>(reader.channels.id);
        for (const [channel, stored] of events) channels.put(channel, stored);
      }
      // Last, so that its position is one at which each channel has the value that it had for this checkpoint.
      batch.thread<Record<string, StoredCheckpoint>>(reader.checkpoints.id).put(id, entry, options);
    });
  }
}

function nameOf(reader: CheckpointReader, id: string): string {
  return JSON.stringify([reader.threadId, reader.namespace, id]);
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
