/**
 * What a store inside this process must offer: rows and seeks, all synchronous, so that a transaction is one
 * uninterrupted piece of code. Everything about forks, restores, erasures and order stands above it, once.
 *
 * @module
 */

import type { BackendStats, EventInput, LogHead, Placement, SavedState, StoredEvent } from "../../log/backend.ts";
import type { ThreadPath } from "../../log/ids.ts";
import type { Position, Version } from "../../log/position.ts";

/** The bytes of an event as they are kept: of `value` and `state` the payload is packed. See payloads.ts. */
export interface PackedBytes {
  readonly value: Uint8Array | undefined;
  readonly state: Uint8Array | undefined;
  /**
   * How the payload is packed: undefined if it is not, 0 if it is compressed, p if it is a delta on the payload of the
   * event at position p, and -p if that is compressed, too.
   */
  readonly packing: number | undefined;
}

/** An event as the store keeps it. */
export interface PackedEvent extends Omit<StoredEvent, "value" | "state"> {
  readonly packed: PackedBytes;
}

/** A thread as the store keeps it. The store owns it and keeps its head up to date. */
export interface ThreadNode {
  readonly id: number;
  readonly path: ThreadPath;
  /** The position of its own first event. */
  readonly created: Position;
  /** The owner of the newest event that it inherits. */
  readonly parent: { readonly id: number; readonly version: Version } | undefined;
  version: Version;
  position: Position;
  time: number;
  latest: Position;
  link: Uint8Array;
  /** The last version that was erased, here or, before the fork, where it comes from; 0 if none. */
  erased: Version;
  /** The position of its own last tombstone; 0 if none. */
  tombstone: Position;
}

/** From `position` on, a thread's state continues from what another (or itself) had at an earlier position. */
export interface Base {
  /** The thread whose state begins anew. */
  readonly thread: number;
  readonly position: Position;
  /** Where it continues from; thread 0 is the empty state. */
  readonly origin: { readonly thread: number; readonly position: Position };
}

/** A key and the position of its newest event in a stretch. */
export interface KeyPosition {
  readonly key: string;
  readonly position: Position;
}

/** Events of one thread in (low, high]. */
export interface Stretch {
  readonly thread: number;
  readonly low: Position;
  readonly high: Position;
}

/** A page of keys. `next` is where to go on; undefined at the end. */
export interface KeyPage {
  readonly found: readonly KeyPosition[];
  readonly next: string | undefined;
}

/** Rows and seeks. Each read is one seek or one bounded scan. */
export interface EventStore {
  readonly engine: string;
  head(): LogHead;

  node(path: ThreadPath): ThreadNode | undefined;
  nodeById(id: number): ThreadNode;
  /** Nodes in path order, behind `after`, below `prefix`. */
  nodes(prefix: string, after: string | undefined, limit: number): readonly ThreadNode[];

  event(position: Position): PackedEvent | undefined;
  /** The position of a thread's own event; undefined if it has no such version. */
  positionOf(thread: number, version: Version): Position | undefined;
  newest(stretch: Stretch, key: string): PackedEvent | undefined;
  keys(
    stretch: Stretch,
    prefix: string,
    after: string | undefined,
    limit: number,
    reverse: boolean,
  ): KeyPage;
  own(thread: number, from: Version, to: Version, limit: number, reverse: boolean): readonly PackedEvent[];
  scan(after: Position, to: Position, limit: number): readonly PackedEvent[];
  /** The newest event of a thread's own under an id, which may have been erased. */
  byId(thread: number, id: string): PackedEvent | undefined;
  positionAt(time: number, to: Position): Position;
  baseBefore(thread: number, position: Position): Base | undefined;
  /** The bases of other threads that continue from this one. */
  basesOn(thread: number): readonly Base[];

  createNode(path: ThreadPath, created: Position, parent: ThreadNode["parent"], erased: Version): ThreadNode;
  /** Adds an event at the end and moves the node's head. */
  insert(node: ThreadNode, event: EventInput, packed: PackedBytes, placement: Placement): void;
  insertBase(base: Base): void;
  /** Records a tombstone and that the node's erased events are to be removed; drops saved states. */
  erase(node: ThreadNode, through: Version, tombstone: Position): void;
  /** A node whose erased events may still be there. */
  nextToPurge(): ThreadNode | undefined;
  requestPurge(node: ThreadNode): void;
  /** Removes up to `limit` events of the node in (low, high) and their bases; how many were removed. */
  remove(node: ThreadNode, low: Position, high: Position, limit: number): number;
  purged(node: ThreadNode): void;

  loadState(name: string): SavedState | undefined;
  /** Keeps a state, unless a tombstone came after its position. */
  saveState(name: string, saved: SavedState): void;
  counts(): Pick<BackendStats, "threads" | "events" | "erased" | "purging">;
}
