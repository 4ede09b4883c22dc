/**
 * The reading half of the default codec. It trusts nothing: see `msgpack.ts` for what it refuses.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { types } from "node:util";
import { READERS } from "./msgpack_extensions.ts";
import { define, MAX_DEPTH } from "./msgpack_format.ts";
import { undecodable } from "./msgpack_refusal.ts";

// Up to here, strings are looked up among the recent ones: in most values, keys and enum-like strings repeat.
const RECENT_LENGTH = 24;
const RECENT_SLOTS = 512;
// Up to here, a scan for ASCII and a Latin-1 read beat TextDecoder, on all three runtimes.
const SHORT_STRING = 160;

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Recently read strings, by a hash of their bytes; a slot's loser is simply forgotten. */
const recent: string[] = new Array(RECENT_SLOTS).fill("");

/** One decoding in progress. */
export class Reader {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** The same bytes again, for Buffer's fast string reads; made when first needed. */
  latin1: Buffer | undefined;
  pos = 0;
  /** The end of the bytes, or of the extension being read: nothing in it may reach beyond. */
  end: number;
  depth = 0;

  constructor(bytes: Uint8Array) {
    // A plain Uint8Array, because a Buffer's slice() is a view.
    this.bytes = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.end = bytes.byteLength;
  }

  run(): unknown {
    const value = this.read();
    if (this.pos !== this.end) throw undecodable("There are bytes after the value", this.pos);
    return value;
  }

  /** Moves past some bytes and returns where they start. */
  take(size: number): number {
    const start = this.pos;
    if (size > this.end - start) throw undecodable("The bytes end too soon", start);
    this.pos = start + size;
    return start;
  }

  uint8(): number {
    return this.bytes[this.take(1)]!;
  }

  uint16(): number {
    return this.view.getUint16(this.take(2));
  }

  uint32(): number {
    return this.view.getUint32(this.take(4));
  }

  read(): unknown {
    const at = this.pos;
    const byte = this.uint8();
    if (byte < 0x80) return byte;
    if (byte >= 0xe0) return byte - 0x100;
    if (byte < 0x90) return this.object(byte & 0x0f, at);
    if (byte < 0xa0) return this.array(byte & 0x0f, at);
    if (byte < 0xc0) return this.string(byte & 0x1f);
    switch (byte) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
        return this.copy(this.uint8());
      case 0xc5:
        return this.copy(this.uint16());
      case 0xc6:
        return this.copy(this.uint32());
      case 0xc7:
        return this.ext(this.uint8(), at);
      case 0xc8:
        return this.ext(this.uint16(), at);
      case 0xc9:
        return this.ext(this.uint32(), at);
      case 0xca:
        return this.view.getFloat32(this.take(4));
      case 0xcb:
        return this.view.getFloat64(this.take(8));
      case 0xcc:
        return this.uint8();
      case 0xcd:
        return this.uint16();
      case 0xce:
        return this.uint32();
      case 0xcf:
        return this.view.getBigUint64(this.take(8));
      case 0xd0:
        return this.view.getInt8(this.take(1));
      case 0xd1:
        return this.view.getInt16(this.take(2));
      case 0xd2:
        return this.view.getInt32(this.take(4));
      case 0xd3:
        return this.view.getBigInt64(this.take(8));
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return this.ext(1 << (byte - 0xd4), at);
      case 0xd9:
        return this.string(this.uint8());
      case 0xda:
        return this.string(this.uint16());
      case 0xdb:
        return this.string(this.uint32());
      case 0xdc:
        return this.array(this.uint16(), at);
      case 0xdd:
        return this.array(this.uint32(), at);
      case 0xde:
        return this.object(this.uint16(), at);
      case 0xdf:
        return this.object(this.uint32(), at);
      default:
        throw undecodable("Byte 0xc1 has no meaning in MessagePack", at);
    }
  }

  /** Reads a value that must be a string: a key, or a name. */
  name(what: string): string {
    const at = this.pos;
    const byte = this.uint8();
    if (byte >= 0xa0 && byte < 0xc0) return this.string(byte & 0x1f);
    if (byte === 0xd9) return this.string(this.uint8());
    if (byte === 0xda) return this.string(this.uint16());
    if (byte === 0xdb) return this.string(this.uint32());
    throw undecodable(`${what} must be a string`, at);
  }

  string(size: number): string {
    const start = this.take(size);
    const { bytes, pos } = this;
    if (size <= SHORT_STRING) {
      let hash = size;
      let i = start;
      for (; i < pos && bytes[i]! < 0x80; i++) hash = Math.imul(hash, 31) + bytes[i]!;
      if (i === pos) return size <= RECENT_LENGTH ? this.recent(start, hash & (RECENT_SLOTS - 1)) : this.ascii(start);
    }
    try {
      return UTF8.decode(bytes.subarray(start, pos));
    } catch (error) {
      throw undecodable("A string is not valid UTF-8", start, error);
    }
  }

  recent(start: number, slot: number): string {
    const { bytes, pos } = this;
    const known = recent[slot]!;
    if (known.length === pos - start) {
      let i = start;
      while (i < pos && known.charCodeAt(i - start) === bytes[i]) i++;
      if (i === pos) return known;
    }
    return recent[slot] = this.ascii(start);
  }

  ascii(start: number): string {
    const { buffer, byteOffset, byteLength } = this.bytes;
    this.latin1 ??= Buffer.from(buffer, byteOffset, byteLength);
    return this.latin1.toString("latin1", start, this.pos);
  }

  copy(size: number): Uint8Array<ArrayBuffer> {
    const start = this.take(size);
    return new Uint8Array(this.bytes.subarray(start, this.pos));
  }

  /** Opens a container whose count promises at least this many bytes, before anything is allocated for it. */
  enter(bytes: number, at: number): void {
    if (bytes > this.end - this.pos) throw undecodable("A count promises more than there are bytes", at);
    if (++this.depth > MAX_DEPTH) throw undecodable(`Values are nested more than ${MAX_DEPTH} deep`, at);
  }

  array(length: number, at: number): unknown[] {
    this.enter(length, at);
    // Grown step by step: nested counts may each be possible, and together claim far more than the bytes can hold.
    const array: unknown[] = [];
    for (let i = 0; i < length; i++) array.push(this.read());
    this.depth--;
    return array;
  }

  object(size: number, at: number): Record<string, unknown> {
    this.enter(size * 2, at);
    const object: Record<string, unknown> = {};
    for (let i = 0; i < size; i++) {
      const keyAt = this.pos;
      const key = this.name("A key");
      const value = this.read();
      if (!(key in object)) object[key] = value;
      else if (!Object.hasOwn(object, key)) define(object, key, value, true);
      else throw undecodable("A key occurs twice", keyAt);
    }
    this.depth--;
    return object;
  }

  /** Reads a value that must be a map with string keys. */
  fields(): Record<string, unknown> {
    const at = this.pos;
    const byte = this.uint8();
    if (byte >= 0x80 && byte < 0x90) return this.object(byte & 0x0f, at);
    if (byte === 0xde) return this.object(this.uint16(), at);
    if (byte === 0xdf) return this.object(this.uint32(), at);
    throw undecodable("A map is missing", at);
  }

  ext(size: number, at: number): unknown {
    const type = this.view.getInt8(this.take(1));
    const read = READERS.get(type);
    if (read === undefined) throw undecodable(`Extension type ${type} is unknown`, at);
    const start = this.take(size);
    const outerEnd = this.end;
    this.end = this.pos;
    this.pos = start;
    const value = read(this, at);
    if (this.pos !== this.end) throw undecodable("An extension is longer than its content", this.pos);
    this.end = outerEnd;
    return value;
  }
}

/** Decodes the bytes of one value; see `msgpack.ts`. */
export function decode(bytes: Uint8Array): unknown {
  if (!types.isUint8Array(bytes)) throw undecodable("There are no bytes, but something else", 0);
  return new Reader(bytes).run();
}
