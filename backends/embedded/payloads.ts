/**
 * How payloads are kept. An event's payload is the whole value that it carries: the value itself, or, behind a patch,
 * the state after it. It is packed when the event is inserted and unpacked when it leaves the store, so that nothing
 * above sees it, and the hash chain is over what was appended, however it is kept.
 *
 * A payload is kept as a delta (log/delta.ts) on an earlier one where that is smaller: the last one of its key or, for a
 * new key, that of the thread's newest entry. Long ones are compressed as well. Both are cut short so that a cold read
 * stays near the cost of reading the payload whole.
 *
 * @module
 */

import * as zlib from "node:zlib";
import { type EventInput, Form, type StoredEvent } from "../../log/backend.ts";
import { applyDeltas, makeDelta } from "../../log/delta.ts";
import { ThreadlogError } from "../../log/errors.ts";
import type { Position } from "../../log/position.ts";
import type { EventStore, PackedBytes, PackedEvent, ThreadNode } from "./event_store.ts";
import { newestOf } from "./lineage.ts";

/** Below this a delta saves nothing worth a seek, in bytes. */
const MIN_DELTA = 128;
/** A chain of deltas may have this many links, and one more for so many bytes of its payload. */
const LINKS = 3;
const BYTES_PER_LINK = 512;
const MAX_LINKS = 256;
/** All that is read for a payload takes at most this many times its length. */
const MAX_READ = 3;
/** Below this, compressing takes longer than writing what it saves, in bytes. */
const MIN_COMPRESSED = 8192;
/** What compressing must leave off to be worth the time it takes to read. */
const MAX_RATIO = 0.8;
/** After so many deltas in vain every sixteenth payload is tried. */
const MAX_MISSES = 4;
/** Of how many keys the last payload is remembered: about 100 bytes each. */
const MAX_KEYS = 100_000;

/** A payload in memory, and what it takes to read it from the store. */
interface Known {
  readonly bytes: Uint8Array;
  /** Deltas between the whole one at its beginning and itself. */
  readonly links: number;
  /** All bytes that are read for it. */
  readonly read: number;
}

/** Where the last payload of each key of a thread is; 0 for none. */
interface Roots {
  readonly byKey: Map<string, Position>;
  /** Whether a key that is missing has never been there. */
  complete: boolean;
  /** Where the last payload of any key was put; 0 if that is not known. */
  last: Position;
  /** How many deltas in a row were not worth it, and how many payloads to let pass before the next is tried. */
  misses: number;
  pause: number;
}

/** Packs and unpacks the payloads of one store. */
export class Payloads {
  readonly #store: EventStore;
  readonly #budget: number;
  readonly #maxBytes: number;
  /** By position: what was used last, and what was before that. */
  #young = new Map<Position, Known>();
  #old = new Map<Position, Known>();
  /** Bytes in the young half. */
  #size = 0;
  #roots = new WeakMap<ThreadNode, Roots>();
  /** How many are remembered. */
  #keys = 0;

  /** Keeps up to `budgetBytes` of payloads in memory; refuses to unpack more than `maxBytes` at once. */
  constructor(store: EventStore, budgetBytes: number, maxBytes: number) {
    this.#store = store;
    this.#budget = budgetBytes;
    this.#maxBytes = maxBytes;
  }

  /** Packs an event that is about to be inserted at a position. */
  pack(node: ThreadNode, event: EventInput, position: Position): PackedBytes {
    const { value, state, form } = event;
    const bytes = form === Form.whole ? value : state;
    if (bytes === undefined) return { value, state, packing: undefined };
    const base = event.key === undefined ? undefined : this.#baseOf(node, event.key);
    const { stored, packing, known } = this.#packed(bytes, base, this.#rootsOf(node));
    if (event.key !== undefined) this.#remember(position, known);
    return form === Form.whole ? { value: stored, state, packing } : { value, state: stored, packing };
  }

  #packed(bytes: Uint8Array, base: Position | undefined, roots: Roots) {
    const isTried = base !== undefined && bytes.length >= MIN_DELTA && roots.pause-- <= 0;
    const known = isTried ? this.#payload(base) : undefined;
    const links = Math.min(LINKS + bytes.length / BYTES_PER_LINK, MAX_LINKS);
    if (known !== undefined && known.links < links) {
      const limit = Math.min(bytes.length * MAX_READ - known.read, bytes.length >> 1);
      const delta = limit > 0 ? makeDelta(known.bytes, bytes, limit) : undefined;
      // Where values have nothing in common, looking for it costs more than all else: it is tried less and less often.
      roots.misses = delta === undefined && limit > 0 ? Math.min(roots.misses + 1, MAX_MISSES) : 0;
      roots.pause = 2 ** roots.misses - 1;
      if (delta !== undefined) {
        const small = compress(delta);
        const stored = small ?? delta;
        const packing = small === undefined ? base! : -base!;
        return { stored, packing, known: { bytes, links: known.links + 1, read: known.read + stored.length } };
      }
    }
    const small = compress(bytes);
    const stored = small ?? bytes;
    return { stored, packing: small && 0, known: { bytes, links: 0, read: stored.length } };
  }

  /** The newest payload of a key; for a new key, of the thread's newest entry. */
  #baseOf(node: ThreadNode, key: string): Position | undefined {
    const roots = this.#rootsOf(node);
    if (node.position === 0) return undefined;
    let root = roots.byKey.get(key);
    if (root === undefined && !roots.complete) {
      root = this.#rootOf(newestOf(this.#store, { thread: node.id, position: node.position }, key)) ?? 0;
    }
    if (root !== undefined && root !== 0) return root;
    if (node.latest === 0) return undefined;
    if (node.latest === roots.last) return roots.last;
    return this.#rootOf(this.#store.event(node.latest));
  }

  /** The position of the payload that an event's value is read from. */
  #rootOf(event: PackedEvent | undefined): Position | undefined {
    let at = event;
    while (at !== undefined && payloadOf(at) === undefined) {
      const { base, position } = at;
      at = base === undefined || base >= position ? undefined : this.#store.event(base);
    }
    return at?.position;
  }

  /** Follows an event that has been inserted. */
  inserted(node: ThreadNode, event: EventInput, position: Position): void {
    if (event.type === "fork" || event.type === "restore" || event.type === "erase") {
      this.#roots.delete(node);
      return;
    }
    if (event.key === undefined) return;
    const roots = this.#rootsOf(node);
    const { byKey } = roots;
    if (byKey.has(event.key)) this.#keys--;
    if (event.type === "delete") byKey.set(event.key, 0);
    else if (event.form === Form.whole || event.state !== undefined) {
      byKey.set(event.key, position);
      roots.last = position;
    }
    if (++this.#keys <= MAX_KEYS) return;
    this.#roots = new WeakMap();
    this.#keys = 0;
  }

  #rootsOf(node: ThreadNode): Roots {
    let roots = this.#roots.get(node);
    if (roots === undefined) {
      this.#roots.set(
        node,
        roots = {
          byKey: new Map(),
          complete: node.position === 0 && node.parent === undefined,
          last: 0,
          misses: 0,
          pause: 0,
        },
      );
    }
    return roots;
  }

  /** An event as it was appended. */
  unpack(event: PackedEvent): StoredEvent {
    const { packed, ...rest } = event;
    const { value, state, packing } = packed;
    if (packing === undefined) return { ...rest, value, state };
    const known = this.#payload(event.position, event);
    if (known === undefined) throw damaged(event, new RangeError("there are none"));
    const { bytes } = known;
    return event.form === Form.whole ? { ...rest, value: bytes, state } : { ...rest, value, state: bytes };
  }

  /** A payload, whole. */
  #payload(position: Position, event?: PackedEvent): Known | undefined {
    let known = this.#recall(position);
    if (known !== undefined) return known;
    const links: PackedEvent[] = [];
    for (let at = event ?? this.#store.event(position); known === undefined;) {
      const stored = at && payloadOf(at);
      if (at === undefined || stored === undefined) {
        if (links.length === 0) return undefined;
        throw damaged(links.at(-1)!, new RangeError("what its delta builds on is missing"));
      }
      const base = Math.abs(at.packed.packing ?? 0);
      if (base === 0) {
        known = { bytes: this.#inflated(at, stored), links: 0, read: stored.length };
      } else {
        if (base >= at.position) throw damaged(at, new RangeError("its delta builds on what comes later"));
        links.push(at);
        known = this.#recall(base);
        if (known === undefined) at = this.#store.event(base);
      }
    }
    if (links.length > 0) known = this.#follow(known, links.reverse());
    this.#remember(position, known);
    return known;
  }

  #follow(base: Known, links: readonly PackedEvent[]): Known {
    let { read } = base;
    const deltas = links.map((link) => {
      const stored = payloadOf(link)!;
      read += stored.length;
      return this.#inflated(link, stored);
    });
    try {
      const bytes = applyDeltas(base.bytes, deltas, this.#maxBytes);
      return { bytes, links: base.links + links.length, read };
    } catch (error) {
      throw error instanceof RangeError ? damaged(links[error.cause as number]!, error) : error;
    }
  }

  #inflated(event: PackedEvent, stored: Uint8Array): Uint8Array {
    const { packing } = event.packed;
    if (packing === undefined || packing > 0) return stored;
    if (zlib.zstdDecompressSync === undefined) {
      throw new ThreadlogError("unsupported", "This runtime can't read zstd, which the value is compressed with", {
        place: `position ${event.position}`,
        remedy: "Use Bun, Deno >= 2.6 or Node >= 22.15.",
      });
    }
    try {
      const bytes = zlib.zstdDecompressSync(stored, { maxOutputLength: this.#maxBytes });
      return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    } catch (error) {
      throw damaged(event, error);
    }
  }

  #recall(position: Position): Known | undefined {
    const known = this.#young.get(position);
    if (known !== undefined) return known;
    const old = this.#old.get(position);
    if (old !== undefined) this.#remember(position, old);
    return old;
  }

  #remember(position: Position, known: Known): void {
    if (known.bytes.length > this.#budget / 4) return;
    this.#young.set(position, known);
    this.#size += known.bytes.length;
    // Half of the budget each: what has not been used while the young half filled up goes.
    if (this.#size <= this.#budget / 2) return;
    this.#old = this.#young;
    this.#young = new Map();
    this.#size = 0;
  }

  /** Drops what is in memory, after a transaction was undone: its positions will be given to other events. */
  forget(): void {
    this.#young = new Map();
    this.#old = new Map();
    this.#size = 0;
    this.#roots = new WeakMap();
    this.#keys = 0;
  }
}

function payloadOf({ form, packed }: PackedEvent): Uint8Array | undefined {
  return form === Form.whole ? packed.value : packed.state;
}

/** Compressed, if that is worth it. Level 1: higher ones take several times as long for a few percent. */
function compress(bytes: Uint8Array): Uint8Array | undefined {
  if (bytes.length < MIN_COMPRESSED || zlib.zstdCompressSync === undefined) return undefined;
  const level = { [zlib.constants.ZSTD_c_compressionLevel]: 1 };
  const small = zlib.zstdCompressSync(bytes, { params: level });
  return small.length < bytes.length * MAX_RATIO ? new Uint8Array(small) : undefined;
}

function damaged(event: PackedEvent, cause: unknown): ThreadlogError {
  return new ThreadlogError("corrupt", `The bytes of a value are damaged: ${(cause as Error).message}`, {
    place: `position ${event.position}`,
    remedy: "Other values stay readable. Run verify() for the full extent, and restore from a backup.",
    cause,
  });
}
