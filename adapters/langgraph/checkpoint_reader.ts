/**
 * Reading checkpoints: from entries of the log to LangGraph's tuples.
 *
 * @module
 */

import {
  BaseCheckpointSaver,
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointTuple,
  maxChannelVersion,
  TASKS,
} from "@langchain/langgraph-checkpoint";
import { ThreadlogError } from "../../log/errors.ts";
import type { Log } from "../../log/log.ts";
import type { Thread } from "../../log/thread.ts";
import { below, checkpointsPath, configOf, type Prefix } from "./address.ts";
import { type CheckpointEntry, decodeCheckpoint, type StoredCheckpoint } from "./checkpoint_entry.ts";
import { historyOf } from "./checkpoint_history.ts";
import { readWrites, type WritesState } from "./pending_writes.ts";
import { load, type Serde, type Stored } from "./value_codec.ts";

/** The state of a thread of checkpoints. */
export type CheckpointsState = Record<string, StoredCheckpoint>;

/** The threads of one checkpoint namespace. */
export class CheckpointReader {
  readonly threadId: string;
  readonly namespace: string;
  readonly checkpoints: Thread<CheckpointsState>;
  readonly channels: Thread<Record<string, Stored>>;
  readonly writes: Thread<WritesState>;
  readonly #serde: Serde;

  constructor(log: Log, serde: Serde, prefix: Prefix, threadId: string, namespace: string) {
    const path = checkpointsPath(prefix, threadId, namespace);
    this.threadId = threadId;
    this.namespace = namespace;
    this.checkpoints = log.thread(path);
    this.channels = log.thread(below(path, "channels"));
    this.writes = log.thread(below(path, "writes"));
    this.#serde = serde;
  }

  /** The entry of a checkpoint; of the newest, if no id is given. */
  async entry(id: string | undefined): Promise<CheckpointEntry | undefined> {
    if (id !== undefined) return await this.checkpoints.entry(id) as CheckpointEntry | undefined;
    const newest = await this.checkpoints.latest() as CheckpointEntry | undefined;
    const again = newest?.value.again;
    if (again === undefined) return newest;
    // It was put before, and did not become the newest by being put again.
    const latest = await this.entry(again.latest);
    if (latest !== undefined) return latest;
    for await (const entry of historyOf(this.checkpoints)) return entry;
    return undefined;
  }

  /** The tuple of a checkpoint's entry. */
  async tuple(entry: CheckpointEntry): Promise<CheckpointTuple> {
    const { threadId, namespace } = this;
    const { key, value: { parent } } = entry;
    const [checkpoint, metadata, pendingWrites] = await Promise.all([
      decodeCheckpoint(this.#serde, entry, (channel, position) => this.valueAt(channel, position)),
      this.metadata(entry),
      readWrites(this.#serde, this.writes, key),
    ]);
    if (checkpoint.v < 4 && parent !== null) await this.#addPendingSends(checkpoint, parent);
    const tuple: CheckpointTuple = { config: configOf(threadId, namespace, key), checkpoint, metadata, pendingWrites };
    if (parent !== null) tuple.parentConfig = configOf(threadId, namespace, parent);
    return tuple;
  }

  /** The metadata of a checkpoint's entry. */
  async metadata(entry: CheckpointEntry): Promise<CheckpointMetadata> {
    return await load(this.#serde, entry.value.metadata as Stored) as CheckpointMetadata;
  }

  /** The stored value that a channel had at a position of the log. */
  async valueAt(channel: string, position: number): Promise<Stored> {
    const current = await this.channels.entry(channel);
    if (current !== undefined && current.position <= position) return current.value as Stored;
    const value = await this.channels.at({ position }).get(channel) ?? await this.#inherited(channel, position);
    if (value !== undefined) return value as Stored;
    throw new ThreadlogError("corrupt", `Channel ${JSON.stringify(channel)} has no value where a checkpoint says`, {
      place: `thread ${JSON.stringify(this.threadId)}, position ${position}`,
      remedy: "Other checkpoints stay readable. Run log.verify() to see whether the file is damaged.",
    });
  }

  /** A copy of a thread did not exist yet at the positions of the history that it shares: its versions lead there. */
  async #inherited(channel: string, position: number): Promise<Stored | undefined> {
    const { version: head } = await this.channels.head();
    let low = 0;
    for (let high = head; low < high;) {
      const middle = Math.ceil((low + high) / 2);
      const { value: event } = await this.channels.replay({ from: middle, limit: 1 }).next();
      if (event !== undefined && event.position <= position) low = middle;
      else high = middle - 1;
    }
    return low === 0 ? undefined : await this.channels.at({ version: low }).get(channel) as Stored | undefined;
  }

  /** Before version 4 of the format, the sends of a superstep were pending writes of the checkpoint before. */
  async #addPendingSends(checkpoint: Checkpoint, parentId: string): Promise<void> {
    const sends = await readWrites(this.#serde, this.writes, parentId, TASKS);
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_values[TASKS] = sends.map(([, , value]) => value);
    checkpoint.channel_versions[TASKS] = versions.length > 0
      ? maxChannelVersion(...versions)
      : BaseCheckpointSaver.prototype.getNextVersion.call(undefined, undefined);
  }
}
