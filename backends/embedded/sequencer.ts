/**
 * The single serialized writer's inner part: checks requests, gives events their places, and removes what was erased.
 * Called inside a transaction of the store; no step waits.
 *
 * @module
 */

import type { AppendOutcome, AppendRequest, EventInput, PositionRange, StoredEvent } from "../../log/backend.ts";
import { FIRST_LINK, linkOf } from "../../log/digest.ts";
import { ThreadlogError } from "../../log/errors.ts";
import { showPath } from "../../log/ids.ts";
import type { Position } from "../../log/position.ts";
import type { EventStore, PackedEvent, ThreadNode } from "./event_store.ts";
import { type Cut, eventAt, listEntries, newestOf, ownById, ownerOf } from "./lineage.ts";
import type { Payloads } from "./payloads.ts";

/** How far back to look for the newest entry, one latest-pointer at a time. */
const MAX_STEPS = 64;

/** Appends one request, or refuses it whole. */
export function appendRequest(
  store: EventStore,
  payloads: Payloads,
  request: AppendRequest,
  now: number,
): AppendOutcome {
  const refusal = findDuplicates(store, payloads, request.events) ?? findConflict(store, request) ??
    findMissingOrigin(store, request.events);
  if (refusal !== undefined) return refusal;
  const head = store.head();
  const time = Math.max(now, head.time);
  let position = head.position;
  return {
    kind: "appended",
    placements: request.events.map((event) => place(store, payloads, event, ++position, time)),
  };
}

function findDuplicates(
  store: EventStore,
  payloads: Payloads,
  events: readonly EventInput[],
): AppendOutcome | undefined {
  let found: (StoredEvent | undefined)[] | undefined;
  events.forEach((event, index) => {
    if (event.id === undefined) return;
    const node = store.node(event.path);
    const earlier = node && ownById(store, node, event.id);
    if (earlier !== undefined) (found ??= new Array(events.length).fill(undefined))[index] = payloads.unpack(earlier);
  });
  return found && { kind: "duplicate", found };
}

function findConflict(store: EventStore, request: AppendRequest): AppendOutcome | undefined {
  for (const { path, version } of request.expects) {
    const actual = store.node(path)?.version ?? 0;
    if (actual !== version) return { kind: "conflict", path, expected: version, actual };
  }
  return undefined;
}

function findMissingOrigin(store: EventStore, events: readonly EventInput[]): AppendOutcome | undefined {
  for (const { origin } of events) {
    if (origin === undefined) continue;
    const node = store.node(origin.path);
    const erased = node !== undefined && origin.version > 0 && origin.version <= node.erased;
    if (node === undefined || erased || origin.version > node.version) {
      return { kind: "no_origin", path: origin.path, version: origin.version, erased };
    }
  }
  return undefined;
}

function place(store: EventStore, payloads: Payloads, event: EventInput, position: Position, time: number) {
  const origin = originOf(store, event.origin);
  const node = store.node(event.path) ?? createNode(store, event, position, origin);
  const version = node.version + 1;
  const latest = latestAfter(store, node, event, position, origin);
  // A tombstone begins a chain of its own: what came before it can't be held against anything any more.
  const previous = event.type === "erase" ? FIRST_LINK : node.link;
  const placement = { position, version, time, latest, link: linkOf(previous, event.digest, position, version, time) };
  store.insert(node, event, payloads.pack(node, event, position), placement);
  payloads.inserted(node, event, position);
  if (event.type === "fork" || event.type === "restore") {
    store.insertBase({ thread: node.id, position, origin: origin ?? { thread: 0, position: 0 } });
  } else if (event.type === "erase") {
    store.insertBase({ thread: node.id, position, origin: { thread: 0, position: 0 } });
    store.erase(node, version - 1, position);
    requestAncestorPurges(store, node);
  }
  return placement;
}

/** The event that a fork or restore continues from; undefined for version 0, the empty state. */
function originOf(store: EventStore, origin: EventInput["origin"]): Cut | undefined {
  return origin === undefined || origin.version === 0
    ? undefined
    : ownerOf(store, store.node(origin.path)!, origin.version);
}

function createNode(store: EventStore, event: EventInput, created: Position, origin: Cut | undefined): ThreadNode {
  if (event.type !== "fork" || origin === undefined) return store.createNode(event.path, created, undefined, 0);
  const inherited = store.event(origin.position)!;
  // What the forked thread has erased by now is not inherited, even where another fork still keeps it.
  const { erased } = store.node(event.origin!.path)!;
  const node = store.createNode(event.path, created, { id: origin.thread, version: inherited.version }, erased);
  node.version = inherited.version;
  node.link = inherited.link;
  return node;
}

function latestAfter(
  store: EventStore,
  node: ThreadNode,
  event: EventInput,
  position: Position,
  origin: Cut | undefined,
): Position {
  switch (event.type) {
    case "set":
    case "patch":
      return position;
    case "erase":
      return 0;
    case "fork":
    case "restore":
      return origin === undefined ? 0 : store.event(origin.position)!.latest;
    case "delete":
      return latestWithout(store, node, event.key!);
    default:
      return node.latest;
  }
}

/** The newest entry that is left once a key is deleted: back along the latest-pointers to one that is still current. */
function latestWithout(store: EventStore, node: ThreadNode, deleted: string): Position {
  const cut = { thread: node.id, position: node.position };
  let position = node.latest;
  for (let step = 0; position !== 0; step++) {
    const entry = store.event(position)!;
    if (entry.key !== deleted && newestOf(store, cut, entry.key!)?.position === position) return position;
    // Many versions of few keys: then going through the keys takes less.
    if (step === MAX_STEPS) return newestEntry(store, cut, deleted);
    const owner = store.node(entry.path)!;
    const before = entry.version === 1 ? undefined : ownerOf(store, owner, entry.version - 1);
    position = before === undefined ? 0 : eventAt(store, before).latest;
  }
  return 0;
}

/** The position of the newest entry of any other key; 0 if there is none. */
function newestEntry(store: EventStore, cut: Cut, except: string): Position {
  let newest = 0;
  let after: string | undefined;
  for (const limit = 256;;) {
    const page = listEntries(store, cut, { prefix: "", after, limit, reverse: false });
    for (const [entry] of page) if (entry!.key !== except && entry!.position > newest) newest = entry!.position;
    if (page.length < limit) return newest;
    after = page.at(-1)![0]!.key;
  }
}

/** An erased ancestor keeps only what its forks share: with one fork less it may keep less. */
export function requestAncestorPurges(store: EventStore, node: ThreadNode): void {
  // A living fork of this one needs all that this one inherited.
  if (sharedRanges(store, node).some(({ first }) => first === node.created)) return;
  for (let owner = node; owner.parent !== undefined;) {
    owner = store.nodeById(owner.parent.id);
    if (owner.tombstone > 0) store.requestPurge(owner);
  }
}

/**
 * Scans the log without what tombstones have erased but nobody has removed yet: another process may be at it, and a
 * crash may have come in between.
 */
export function scanVisible(store: EventStore, { after, to, limit }: PositionRange): readonly PackedEvent[] {
  if (store.nextToPurge() === undefined) return store.scan(after, to, limit);
  const kept = new Map<number, Range[]>();
  const isVisible = ({ path, position }: PackedEvent) => {
    const node = store.node(path)!;
    if (position >= node.tombstone) return true;
    if (!kept.has(node.id)) kept.set(node.id, sharedRanges(store, node));
    return kept.get(node.id)!.some(({ first, last }) => first <= position && position <= last);
  };
  const events: PackedEvent[] = [];
  for (let from = after; events.length < limit;) {
    const size = limit - events.length;
    const page = store.scan(from, to, size);
    for (const event of page) if (isVisible(event)) events.push(event);
    if (page.length < size) break;
    from = page.at(-1)!.position;
  }
  return events;
}

/** Removes up to `limit` erased events; true while there may be more. */
export function purgeSome(store: EventStore, limit: number): boolean {
  const node = store.nextToPurge();
  if (node === undefined) return false;
  const kept = sharedRanges(store, node).filter(({ last }) => last < node.tombstone);
  kept.sort((a, b) => a.first - b.first);
  let left = limit;
  let low = 0;
  for (const { first, last } of [...kept, { first: node.tombstone, last: node.tombstone }]) {
    if (first > low) left -= store.remove(node, low, first, left);
    if (left === 0) return true;
    low = Math.max(low, last);
  }
  store.purged(node);
  if (store.nextToPurge()?.id === node.id) {
    // An index that does not fit its table would have it purged for ever.
    throw new ThreadlogError("corrupt", "The file is damaged: what is to be erased can't be marked as done", {
      place: `thread ${showPath(node.path)}`,
      remedy: "Open it with { readOnly: true } to see what can be read, and restore from a backup.",
    });
  }
  return true;
}

/** Events of a thread from one position to another, both included. */
interface Range {
  readonly first: Position;
  readonly last: Position;
}

/** The events of a thread that living forks (and forks of forks) share. */
function sharedRanges(store: EventStore, node: ThreadNode): Range[] {
  const ranges: Range[] = [];
  const ofHeirs = new Map<number, Range[]>();
  for (const { thread, position, origin } of store.basesOn(node.id)) {
    if (thread === node.id) continue;
    const heir = store.nodeById(thread);
    if (position < heir.tombstone) {
      // Erased in the heir, too, but for what its own forks share.
      if (!ofHeirs.has(thread)) ofHeirs.set(thread, sharedRanges(store, heir));
      if (!ofHeirs.get(thread)!.some(({ first, last }) => first <= position && position <= last)) continue;
    }
    ranges.push({ first: beginningOf(store, node, origin.position), last: origin.position });
  }
  return ranges;
}

/** Where a thread's history began, as it was at a position: at its last tombstone, or its first event. */
function beginningOf(store: EventStore, node: ThreadNode, position: Position): Position {
  for (let at = position;;) {
    const base = store.baseBefore(node.id, at);
    if (base === undefined) return node.created;
    if (base.origin.thread === 0 && store.event(base.position)?.type === "erase") return base.position;
    at = base.position - 1;
  }
}
