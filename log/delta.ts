/**
 * Binary deltas: what one run of bytes takes from another, and what it adds. Whatever the codec, and whatever was
 * changed: elements appended, changed in place, moved or removed.
 *
 * A delta is the length of its result as a varint, then instructions. A varint that is even, 2n, is followed by n bytes
 * to insert; one that is odd, 2n + 1, copies n bytes of the base, from where the last copy ended plus a signed varint
 * (zigzag). Varints are little-endian, seven bits a byte.
 *
 * @module
 */

import { Buffer } from "node:buffer";

/** Shorter runs are not looked for: an instruction takes two to six bytes. */
const BLOCK = 8;
/** How far around a difference to look for where both go on alike, before all of the base is searched. */
const NEAR = 24;
/** All of the base is searched only where at least this part of it, as a divisor, is left to be found. */
const WORTH = 16;
/** What counts as going on alike near a difference, in bytes. */
const ALIKE = 12;
/** Runs up to this long are compared here; longer ones natively, in pieces that grow. */
const SHORT = 128;
const MAX_PIECE = 1 << 16;

/** The delta that makes `next` of `base`; undefined if it would take more than `limit` bytes. */
export function makeDelta(base: Uint8Array, next: Uint8Array, limit: number): Uint8Array | undefined {
  const out = new Writer(limit);
  out.varint(next.length);
  const tail = commonSuffix(base, next, Math.min(base.length, next.length));
  const baseEnd = base.length - tail;
  const nextEnd = next.length - tail;
  let index: BlockIndex | undefined;
  /** `next` is written up to here; in `base` the last copy ended here. */
  let written = 0;
  let baseAt = 0;
  for (let at = 0; at < nextEnd;) {
    let from = baseAt + at - written;
    let length = from < baseEnd ? commonPrefix(base, from, baseEnd, next, at, nextEnd) : 0;
    if (length < ALIKE) {
      const near = at === written ? nearby(base, baseAt, baseEnd, next, at, nextEnd) : undefined;
      if (near !== undefined) {
        from = near.from;
        at = near.at;
      } else {
        if (index === undefined && (nextEnd - at) * WORTH < baseEnd) break;
        index ??= new BlockIndex(base, baseEnd);
        const found = index.find(next, at, nextEnd);
        if (found === undefined) break;
        from = found.from;
        at = found.at;
        while (at > written && from > 0 && base[from - 1] === next[at - 1]) from--, at--;
      }
      length = commonPrefix(base, from, baseEnd, next, at, nextEnd);
    }
    out.insert(next, written, at);
    out.copy(from - baseAt, length);
    if (out.isFull) return undefined;
    at += length;
    written = at;
    baseAt = from + length;
  }
  out.insert(next, written, nextEnd);
  if (tail > 0) out.copy(baseEnd - baseAt, tail);
  return out.isFull ? undefined : out.bytes();
}

/** The bytes that a delta makes of its base. Throws a RangeError where it is not a delta on that base. */
export function applyDelta(base: Uint8Array, delta: Uint8Array, maxLength: number): Uint8Array {
  return applyInto(base, delta, (length) => {
    if (length > maxLength) throw new RangeError(`a delta claims ${length} bytes`);
    return new Uint8Array(length);
  });
}

/**
 * The bytes at the end of a chain of deltas, oldest first. Throws as `applyDelta` does, with the index of the delta that
 * does not fit as its `cause`.
 */
export function applyDeltas(base: Uint8Array, deltas: readonly Uint8Array[], maxLength: number): Uint8Array {
  // Each step takes time with the length of the value. Two buffers in turn save it the rest: memory that is new each time.
  const buffers = [new Uint8Array(0), new Uint8Array(0)];
  let bytes = base;
  for (const [index, delta] of deltas.entries()) {
    const isLast = index === deltas.length - 1;
    try {
      bytes = applyInto(bytes, delta, (length) => {
        if (length > maxLength) throw new RangeError(`a delta claims ${length} bytes`);
        if (isLast) return new Uint8Array(length);
        const turn = index % 2;
        if (buffers[turn]!.length < length) buffers[turn] = new Uint8Array(Math.min(length * 2, maxLength));
        return buffers[turn]!.subarray(0, length);
      });
    } catch (error) {
      throw error instanceof RangeError ? new RangeError(error.message, { cause: index }) : error;
    }
  }
  return bytes;
}

function applyInto(base: Uint8Array, delta: Uint8Array, allocate: (length: number) => Uint8Array): Uint8Array {
  const input = new Reader(delta);
  const length = input.varint();
  const result = allocate(length);
  let at = 0;
  let from = 0;
  while (!input.isAtEnd) {
    const head = input.varint();
    const count = Math.floor(head / 2);
    if (at + count > length) throw new RangeError("a delta makes more than it claims");
    if (head % 2 === 0) {
      result.set(input.take(count), at);
    } else {
      const zigzag = input.varint();
      from += zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
      if (from < 0 || from + count > base.length) throw new RangeError("a delta copies from outside of its base");
      result.set(base.subarray(from, from + count), at);
      from += count;
    }
    at += count;
  }
  if (at !== length) throw new RangeError("a delta makes less than it claims");
  return result;
}

function commonPrefix(
  a: Uint8Array,
  aFrom: number,
  aEnd: number,
  b: Uint8Array,
  bFrom: number,
  bEnd: number,
): number {
  const most = Math.min(aEnd - aFrom, bEnd - bFrom);
  const short = Math.min(most, SHORT);
  let n = 0;
  while (n < short && a[aFrom + n] === b[bFrom + n]) n++;
  if (n < short || n === most) return n;
  for (let piece = SHORT * 4;;) {
    const size = Math.min(piece, most - n);
    const same = Buffer.compare(a.subarray(aFrom + n, aFrom + n + size), b.subarray(bFrom + n, bFrom + n + size)) === 0;
    if (same) {
      n += size;
      if (n === most) return n;
      piece = Math.min(piece * 2, MAX_PIECE);
    } else if (size <= SHORT) {
      while (a[aFrom + n] === b[bFrom + n]) n++;
      return n;
    } else {
      piece = size >> 2;
    }
  }
}

function commonSuffix(a: Uint8Array, b: Uint8Array, most: number): number {
  let n = 0;
  for (let piece = SHORT;;) {
    const size = Math.min(piece, most - n);
    if (size === 0) return n;
    const aEnd = a.length - n;
    const bEnd = b.length - n;
    if (Buffer.compare(a.subarray(aEnd - size, aEnd), b.subarray(bEnd - size, bEnd)) === 0) {
      n += size;
      piece = Math.min(piece * 2, MAX_PIECE);
    } else if (size <= SHORT) {
      while (a[a.length - 1 - n] === b[b.length - 1 - n]) n++;
      return n;
    } else {
      piece = size >> 2;
    }
  }
}

interface Match {
  /** Where in the base. */
  readonly from: number;
  /** Where in what is written. */
  readonly at: number;
}

/** Where both go on alike, a few bytes on: most differences are a number or a length. */
function nearby(
  base: Uint8Array,
  baseAt: number,
  baseEnd: number,
  next: Uint8Array,
  nextAt: number,
  nextEnd: number,
): Match | undefined {
  for (let skip = 0; skip <= 2 * NEAR; skip++) {
    for (let inNext = Math.max(0, skip - NEAR); inNext <= Math.min(skip, NEAR); inNext++) {
      const from = baseAt + skip - inNext;
      const at = nextAt + inNext;
      if (from + ALIKE > baseEnd || at + ALIKE > nextEnd) continue;
      let n = 0;
      while (n < ALIKE && base[from + n] === next[at + n]) n++;
      if (n === ALIKE) return { from, at };
    }
  }
  return undefined;
}

/** Finds blocks of a base anywhere in other bytes. Of equal blocks it knows the first. */
class BlockIndex {
  readonly #base: Uint8Array;
  readonly #table: Int32Array;
  readonly #shift: number;

  constructor(base: Uint8Array, end: number) {
    const bits = Math.min(20, Math.max(4, 33 - Math.clz32(end / BLOCK)));
    this.#base = base;
    this.#shift = 32 - bits;
    // Zero stands for no block; so offsets are kept plus one.
    this.#table = new Int32Array(1 << bits);
    for (let at = Math.floor(end / BLOCK - 1) * BLOCK; at >= 0; at -= BLOCK) {
      let high = 0;
      let low = 0;
      for (let i = 0; i < 4; i++) {
        high = high << 8 | base[at + i]!;
        low = low << 8 | base[at + 4 + i]!;
      }
      this.#table[this.#slot(high, low)] = at + 1;
    }
  }

  /** The first place from `at` on where a block of the base is. */
  find(next: Uint8Array, at: number, end: number): Match | undefined {
    if (at + BLOCK > end) return undefined;
    let high = 0;
    let low = 0;
    for (let i = 0; i < BLOCK - 1; i++) {
      high = high << 8 | low >>> 24;
      low = low << 8 | next[at + i]!;
    }
    for (let last = at + BLOCK - 1; last < end; last++) {
      high = high << 8 | low >>> 24;
      low = low << 8 | next[last]!;
      const from = this.#table[this.#slot(high, low)]! - 1;
      if (from >= 0 && this.#isAt(from, next, last - BLOCK + 1)) return { from, at: last - BLOCK + 1 };
    }
    return undefined;
  }

  #slot(high: number, low: number): number {
    return Math.imul(Math.imul(high, 0x9e3779b1) ^ low, 0x85ebca6b) >>> this.#shift;
  }

  #isAt(from: number, next: Uint8Array, at: number): boolean {
    for (let i = 0; i < BLOCK; i++) if (this.#base[from + i] !== next[at + i]) return false;
    return true;
  }
}

/** Room for one instruction's numbers. */
const SLACK = 32;

/** A larger scratch buffer is given back: one huge value must not hold its memory for ever. */
const KEPT_BYTES = 1 << 20;

let scratch: Uint8Array = new Uint8Array(8192);

/** Writes one delta, into a buffer that is used again. */
class Writer {
  readonly #buffer: Uint8Array;
  readonly #limit: number;
  #at = 0;
  isFull = false;

  constructor(limit: number) {
    const size = limit + SLACK;
    this.#buffer = size <= scratch.length ? scratch : new Uint8Array(size);
    if (size <= KEPT_BYTES) scratch = this.#buffer;
    this.#limit = limit;
  }

  varint(value: number): void {
    while (value >= 0x80) {
      this.#buffer[this.#at++] = value % 0x80 | 0x80;
      value = Math.floor(value / 0x80);
    }
    this.#buffer[this.#at++] = value;
    if (this.#at > this.#limit) this.#overflow();
  }

  insert(source: Uint8Array, from: number, to: number): void {
    if (this.isFull || from === to) return;
    this.varint((to - from) * 2);
    if (this.#at + to - from > this.#limit) return this.#overflow();
    this.#buffer.set(source.subarray(from, to), this.#at);
    this.#at += to - from;
  }

  copy(jump: number, length: number): void {
    if (this.isFull) return;
    this.varint(length * 2 + 1);
    this.varint(jump < 0 ? -jump * 2 - 1 : jump * 2);
  }

  bytes(): Uint8Array {
    return this.#buffer.slice(0, this.#at);
  }

  /** Nothing is kept any more; writing on does no harm. */
  #overflow(): void {
    this.isFull = true;
    this.#at = 0;
  }
}

class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  varint(): number {
    let value = 0;
    for (let scale = 1; scale <= 2 ** 42; scale *= 0x80) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) break;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
    throw new RangeError("a delta ends inside a number");
  }

  take(count: number): Uint8Array {
    const end = this.#at + count;
    if (end > this.#bytes.length) throw new RangeError("a delta ends inside what it inserts");
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }
}
