/**
 * What the log keeps of a checkpoint: the value of an entry whose key is the checkpoint's id.
 *
 * A channel's value is kept once, by the checkpoint that changed it. Every later one on the same line says at which
 * position of the log that was. Positions are unique, so neither a sibling's channel version, nor a clock that steps
 * back, nor a checkpoint that is put again can lead to another value.
 *
 * @module
 */

import type { ChannelVersions, Checkpoint, CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import type { Entry } from "../../log/view.ts";
import type { MaybePromise } from "../../projections/keyspace.ts";
import { setOwn } from "./json_tree.ts";
import { dump, isSmall, load, type Serde, type Stored, whenAll } from "./value_codec.ts";

/**
 * Where a channel's value is: appended together with this checkpoint, at or before a position, right here, or nowhere
 * (the channel is empty).
 */
export type Place = "own" | number | Stored | null;

/** A channel of a checkpoint: its name, its version, where its value is, and whether this checkpoint changed it. */
export type StoredChannel = readonly [name: string, version: number | string | null, place: Place, changed: boolean];

/** The value of a checkpoint's entry. */
export interface StoredCheckpoint {
  /** The checkpoint without its channels. */
  readonly checkpoint: Stored;
  /** Its metadata. */
  readonly metadata: Stored;
  /** The id of the checkpoint that this one was made from. */
  readonly parent: string | null;
  /** Its channels. */
  readonly channels: readonly StoredChannel[];
  /** Set if this id had been put before: its place in history, and the id of the newest checkpoint at that time. */
  readonly again?: { readonly position: number; readonly latest: string };
}

/** A checkpoint's entry in the log. */
export type CheckpointEntry = Entry<string, StoredCheckpoint>;

/** A checkpoint on its way into the log, encoded: what the caller does to it later changes nothing. */
export interface EncodedCheckpoint {
  readonly id: string;
  readonly checkpoint: Stored;
  readonly metadata: Stored;
  readonly source: string | undefined;
  readonly versions: ReadonlyMap<string, number | string>;
  readonly changed: ReadonlySet<string>;
  readonly values: ReadonlyMap<string, Stored>;
}

/** Encodes what a put was given; a promise of it only where a serializer must be waited for. */
export function encodeCheckpoint(
  serde: Serde,
  checkpoint: Checkpoint,
  metadata: CheckpointMetadata,
  newVersions: ChannelVersions,
): MaybePromise<EncodedCheckpoint> {
  const { channel_values, channel_versions, ...rest } = checkpoint;
  const versions = new Map(Object.entries(channel_versions ?? {}));
  const changed = new Set(Object.keys(newVersions ?? {}));
  const names = Object.keys(channel_values ?? {}).filter((name) => channel_values[name] !== undefined);
  // All of it before the first await: later changes by the caller must not be seen.
  const parts = [rest, metadata, ...names.map((name) => channel_values[name])].map((part) => dump(serde, part));
  const { id } = checkpoint;
  const source = metadata?.source;
  return whenAll(parts, ([head, about, ...values]) => ({
    id,
    checkpoint: head!,
    metadata: about!,
    source,
    versions,
    changed,
    values: new Map(names.map((name, i) => [name, values[i]!])),
  }));
}

/** What a checkpoint appends: its entry, and the values that get events of their own. */
export interface PlannedCheckpoint {
  readonly entry: StoredCheckpoint;
  readonly events: readonly (readonly [channel: string, value: Stored])[];
}

/** Decides where each channel's value goes, or is already. */
export function planCheckpoint(
  encoded: EncodedCheckpoint,
  parentId: string | undefined,
  parent: CheckpointEntry | undefined,
): PlannedCheckpoint {
  const { versions, changed, values, checkpoint, metadata } = encoded;
  const inherited = new Map(parent?.value.channels.map((channel) => [channel[0], channel]));
  // A copy of a checkpoint declares nothing new, but its parent holds what was before. Without one there is nothing
  // to inherit from.
  const isComplete = encoded.source === "fork" || (parentId !== undefined && parent === undefined);
  const channels: StoredChannel[] = [];
  const events: [string, Stored][] = [];
  const own = (name: string, version: number | string | null, value: Stored | undefined) => {
    if (value === undefined || isSmall(value)) return void channels.push([name, version, value ?? null, true]);
    channels.push([name, version, "own", true]);
    events.push([name, value]);
  };
  for (const [name, version] of versions) {
    const value = values.get(name);
    const earlier = inherited.get(name);
    if (changed.has(name)) own(name, version, value);
    else if (earlier === undefined || earlier[1] === null) own(name, version, isComplete || parent ? value : undefined);
    else if (earlier[1] !== version && value !== undefined) own(name, version, value);
    else channels.push([name, version, earlier[2] === "own" ? parent!.position : earlier[2] as Place, false]);
  }
  // Without a version a channel belongs to this checkpoint alone.
  for (const [name, value] of values) if (!versions.has(name)) own(name, null, value);
  return { entry: { checkpoint, metadata, parent: parentId ?? null, channels }, events };
}

/** Whether a checkpoint itself has given a channel a value. */
export function ownsValue(entry: CheckpointEntry, channel: string): boolean {
  return entry.value.channels.some(([name, , place, changed]) => name === channel && place !== null && changed);
}

/**
 * A checkpoint as LangGraph knows it; a promise of it only where something must be waited for. `valueAt` gives the stored
 * value that a channel had at a position.
 */
export function decodeCheckpoint(
  serde: Serde,
  entry: CheckpointEntry,
  valueAt: (channel: string, position: number) => MaybePromise<Stored>,
): MaybePromise<Checkpoint> {
  const { checkpoint: head, channels } = entry.value;
  const loading = channels.map(([name, , place]) => {
    if (place === null) return undefined;
    if (typeof place === "object") return load(serde, place as Stored);
    const stored = valueAt(name, place === "own" ? entry.position : place as number);
    return stored instanceof Promise ? stored.then((stored) => load(serde, stored)) : load(serde, stored);
  });
  return whenAll([load(serde, head as Stored), ...loading], ([first, ...loaded]) => {
    const checkpoint = first as Checkpoint;
    const values: Record<string, unknown> = {};
    const versions: ChannelVersions = {};
    channels.forEach(([name, version, place], i) => {
      if (version !== null) setOwn(versions, name, version);
      if (place !== null) setOwn(values, name, loaded[i]);
    });
    checkpoint.channel_values = values;
    checkpoint.channel_versions = versions;
    return checkpoint;
  });
}
