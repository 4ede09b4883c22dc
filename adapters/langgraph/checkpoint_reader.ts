/**
 * Reading checkpoints: from entries of the log to LangGraph's tuples.
 *
 * @module
 */

import {
  BaseCheckpointSaver,
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  maxChannelVersion,
  TASKS,
} from "@langchain/langgraph-checkpoint";
import { ThreadlogError } from "../../log/errors.ts";
import type { Core } from "../../log/core.ts";
import { defaultEventId, parseKey, parseThreadId, type ThreadPath } from "../../log/ids.ts";
import { coreOf, type Log } from "../../log/log.ts";
import type { Thread } from "../../log/thread.ts";
import { approximateSize, type StoredValue } from "../../log/value.ts";
import type { MaybePromise } from "../../projections/keyspace.ts";
import { below, checkpointsPath, configOf, type Prefix } from "./address.ts";
import {
  type CheckpointEntry,
  decodeCheckpoint,
  type PlannedCheckpoint,
  type StoredCheckpoint,
} from "./checkpoint_entry.ts";
import { historyOf } from "./checkpoint_history.ts";
import { readWrites, type WritesState } from "./pending_writes.ts";
import type { RecentValues } from "./recent_values.ts";
import { load, type Serde, type Stored, whenAll } from "./value_codec.ts";

/** The state of a thread of checkpoints. */
export type CheckpointsState = Record<string, StoredCheckpoint>;

/** The threads of one checkpoint namespace. */
export class CheckpointReader {
  readonly threadId: string;
  readonly namespace: string;
  readonly checkpoints: Thread<CheckpointsState>;
  readonly channels: Thread<Record<string, Stored>>;
  readonly writes: Thread<WritesState>;
  /** Puts that are on their way, by the id of their checkpoint. */
  readonly underway: Map<string, Promise<void>> = new Map();
  readonly #core: Core;
  readonly #path: ThreadPath;
  /** Whoever has the serializer, which may be exchanged at any time. */
  readonly #owner: { readonly serde: Serde };
  readonly #recent: RecentValues;

  constructor(
    log: Log,
    owner: { readonly serde: Serde },
    recent: RecentValues,
    prefix: Prefix,
    threadId: string,
    namespace: string,
  ) {
    const path = checkpointsPath(prefix, threadId, namespace);
    this.#core = coreOf(log);
    this.#path = parseThreadId(path);
    this.#recent = recent;
    this.threadId = threadId;
    this.namespace = namespace;
    this.checkpoints = log.thread(path);
    this.channels = log.thread(below(path, "channels"));
    this.writes = log.thread(below(path, "writes"));
    this.#owner = owner;
  }

  /** The entry of a checkpoint; of the newest, if no id is given. A promise of it only where it is not in memory. */
  entry(id: string | undefined): MaybePromise<CheckpointEntry | undefined> {
    const core = this.#core;
    const found = core.readAt(() => core.live(), ({ root }): MaybePromise<StoredValue | undefined> => {
      return id === undefined
        ? core.keyspace.latest(root, this.#path)
        : core.keyspace.value(root, this.#path, parseKey(id));
    });
    const shown = (value: StoredValue | undefined) => {
      const entry = value && this.#shown(value);
      const again = id === undefined ? entry?.value.again : undefined;
      return again === undefined ? entry : this.#newest(again.latest);
    };
    return found instanceof Promise ? found.then(shown) : shown(found);
  }

  #shown(stored: StoredValue): CheckpointEntry {
    const { key, version, position, time, id } = stored.event;
    const value = (this.#recent.get(`${position}`) ?? stored.read()) as StoredCheckpoint;
    return { key: key!, value, version, position, time, id: id ?? defaultEventId(position), meta: undefined };
  }

  /** The newest, where the last was put before, and did not become the newest by being put again. */
  async #newest(id: string): Promise<CheckpointEntry | undefined> {
    const latest = await this.entry(id);
    if (latest !== undefined) return latest;
    for await (const entry of historyOf(this.checkpoints)) return entry;
    return undefined;
  }

  /** The tuple of a checkpoint's entry. */
  async tuple(entry: CheckpointEntry): Promise<CheckpointTuple> {
    const { threadId, namespace } = this;
    const { key, value: { parent } } = entry;
    const parts = [
      decodeCheckpoint(this.#owner.serde, entry, (channel, position) => this.valueAt(channel, position)),
      load(this.#owner.serde, entry.value.metadata as Stored),
      readWrites(this.#owner.serde, this.writes, key),
    ];
    const [checkpoint, metadata, pendingWrites] = await whenAll(parts, (parts) => parts) as [
      Checkpoint,
      CheckpointMetadata,
      CheckpointPendingWrite[],
    ];
    if (checkpoint.v < 4 && parent !== null) await this.#addPendingSends(checkpoint, parent);
    const tuple: CheckpointTuple = { config: configOf(threadId, namespace, key), checkpoint, metadata, pendingWrites };
    if (parent !== null) tuple.parentConfig = configOf(threadId, namespace, parent);
    return tuple;
  }

  /** The metadata of a checkpoint's entry. */
  async metadata(entry: CheckpointEntry): Promise<CheckpointMetadata> {
    return await load(this.#owner.serde, entry.value.metadata as Stored) as CheckpointMetadata;
  }

  /** Keeps in memory what a put has stored: who goes on from there need not decode it. */
  remember(position: number, bytes: number, { entry, events }: PlannedCheckpoint): void {
    this.#recent.set(`${position}`, entry, bytes);
    for (const [channel, stored] of events) this.#recent.set(`${position} ${channel}`, stored, bytes);
  }

  /** The stored value that a channel had at a checkpoint's position. A promise of it only where it is not in memory. */
  valueAt(channel: string, position: number): MaybePromise<Stored> {
    const known = this.#recent.get(`${position} ${channel}`);
    return known === undefined ? this.#fetch(channel, position) : known as Stored;
  }

  async #fetch(channel: string, position: number): Promise<Stored> {
    const current = await this.channels.entry(channel);
    const value = current !== undefined && current.position <= position
      ? current.value
      : await this.channels.at({ position }).get(channel) ?? await this.#inherited(channel, position);
    if (value !== undefined) {
      this.#recent.set(`${position} ${channel}`, value, approximateSize(value));
      return value as Stored;
    }
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
    const sends = await readWrites(this.#owner.serde, this.writes, parentId, TASKS);
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_values[TASKS] = sends.map(([, , value]) => value);
    checkpoint.channel_versions[TASKS] = versions.length > 0
      ? maxChannelVersion(...versions)
      : BaseCheckpointSaver.prototype.getNextVersion.call(undefined, undefined);
  }
}
