/**
 * The value that an event left under a key, decoded when it is first wanted.
 *
 * @module
 */

import type { StoredEvent } from "./backend.ts";
import { freeze } from "./freeze.ts";

/** How much it takes to read a value from the log. */
export interface ReadCost {
  /** Events from the whole value to the newest patch. */
  readonly links: number;
  /** Bytes of the whole value that they start from, and of the patches. */
  readonly readBytes: number;
  /** About how many bytes the value itself takes, encoded. */
  readonly valueBytes: number;
}

/** About how many bytes a value takes, encoded. Visits all of it. */
export function approximateSize(value: unknown): number {
  if (typeof value === "string") return value.length + 3;
  if (typeof value !== "object" || value === null) return 4;
  if (ArrayBuffer.isView(value)) return value.byteLength + 6;
  let size = 3;
  if (Array.isArray(value) || value instanceof Set) {
    for (const element of value) size += approximateSize(element);
  } else if (value instanceof Map) {
    for (const [key, element] of value) size += approximateSize(key) + approximateSize(element);
  } else {
    for (const key of Object.keys(value)) size += key.length + 2 + approximateSize(value[key as never]);
  }
  return size;
}

/** A value in memory. Held as bytes until read; then as a frozen value, or as bytes still where it can't be frozen. */
export class StoredValue {
  /** The event that left it, without its bytes. */
  readonly event: StoredEvent;
  readonly cost: ReadCost;
  readonly #decode: (bytes: Uint8Array) => unknown;
  #bytes: Uint8Array | undefined;
  #value: unknown;

  private constructor(
    event: StoredEvent,
    cost: ReadCost,
    decode: (bytes: Uint8Array) => unknown,
    bytes: Uint8Array | undefined,
    value: unknown,
  ) {
    this.event = event.value === undefined ? event : { ...event, value: undefined, state: undefined };
    this.cost = cost;
    this.#decode = decode;
    this.#bytes = bytes;
    this.#value = value;
  }

  /** A value that is known as bytes. */
  static ofBytes(
    event: StoredEvent,
    cost: ReadCost,
    bytes: Uint8Array,
    decode: (bytes: Uint8Array) => unknown,
  ): StoredValue {
    return new StoredValue(event, cost, decode, bytes, undefined);
  }

  /** A value that the library has made; kept as it is where it can be frozen, else as its bytes. */
  static of(
    event: StoredEvent,
    cost: ReadCost,
    value: unknown,
    encode: (value: unknown) => Uint8Array,
    decode: (bytes: Uint8Array) => unknown,
  ): StoredValue {
    return freeze(value)
      ? new StoredValue(event, cost, decode, undefined, value)
      : new StoredValue(event, cost, decode, encode(value), undefined);
  }

  /** The value: frozen and shared by all readers, or, where that can't be, a copy of this reader's own. */
  read(): unknown {
    if (this.#bytes === undefined) return this.#value;
    const value = this.#decode(this.#bytes);
    if (freeze(value)) {
      this.#value = value;
      this.#bytes = undefined;
    }
    return value;
  }

  /** About how many bytes of memory it takes: objects take about three times their encoding. */
  get size(): number {
    return 256 + 3 * this.cost.valueBytes;
  }
}
