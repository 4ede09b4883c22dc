/**
 * The writing half of the default codec. See `msgpack.ts` for the mapping.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { isDeepStrictEqual } from "node:util";
import { assert } from "./errors.ts";
import { WRITERS } from "./msgpack_extensions.ts";
import { EXT, MAX_BIGINT_BYTES, MAX_DEPTH, MAX_VALUE_BYTES } from "./msgpack_format.ts";
import { extras, instance, property, Refusal, refuseSymbols, TooDeep, toRefusal, within } from "./msgpack_refusal.ts";

// Below this, a loop over the characters beats the call into the engine's encoder, on all three runtimes.
const SHORT_STRING = 40;
// Below this, listing an array's keys beats comparing it with a copy.
const SHORT_ARRAY = 64;
// A larger scratch buffer is given back: one huge value must not hold its memory for ever.
const KEPT_BYTES = 1024 * 1024;
// The most that reserve() is ever asked for beyond what is then written.
const SLACK_BYTES = 16;

const UTF8 = new TextEncoder();

/** Any realm's Object.prototype, and nothing else that ends a prototype chain. */
function isRoot(proto: object | null): boolean {
  return proto !== null && Object.getPrototypeOf(proto) === null && Object.hasOwn(proto, "isPrototypeOf");
}

function isArrayRoot(proto: object | null): boolean {
  return Array.isArray(proto) && isRoot(Object.getPrototypeOf(proto));
}

/** One encoding in progress, over a scratch buffer that grows and is used again. */
export class Writer {
  bytes = new Uint8Array(4096);
  view = new DataView(this.bytes.buffer);
  pos = 0;
  depth = 0;
  limitBytes = 0;

  run(value: unknown, limitBytes: number): Uint8Array<ArrayBuffer> {
    this.pos = 0;
    this.depth = 0;
    this.limitBytes = limitBytes;
    this.write(value);
    if (this.pos > limitBytes) throw this.tooLarge();
    // Faster than slice(): Node makes an array of zeros for that first, too, but on a slower way.
    const encoded = new Uint8Array(this.pos);
    encoded.set(this.bytes.subarray(0, this.pos));
    return encoded;
  }

  write(value: unknown): void {
    switch (typeof value) {
      case "string":
        return this.string(value);
      case "number":
        return this.number(value);
      case "object":
        return value === null ? this.byte(0xc0) : this.object(value);
      case "boolean":
        return this.byte(value ? 0xc3 : 0xc2);
      case "undefined":
        return this.ext(EXT.undefined, 0);
      case "bigint":
        return this.bigint(value);
      default:
        throw new Refusal(`A ${typeof value} can't be stored`, "Leave it out, or store a string that names it.");
    }
  }

  tooLarge(): Refusal {
    return new Refusal(
      `A value that takes more than ${this.limitBytes} bytes can't be stored`,
      "Split it over several keys or events, or keep it elsewhere and store a reference.",
      "too_large",
    );
  }

  reserve(size: number): void {
    if (this.pos + size > this.bytes.length) this.grow(this.pos + size);
  }

  grow(size: number): void {
    if (size > this.limitBytes + SLACK_BYTES) throw this.tooLarge();
    const { bytes } = this;
    this.bytes = new Uint8Array(Math.max(size, Math.min(bytes.length * 2, this.limitBytes + SLACK_BYTES)));
    this.bytes.set(bytes.subarray(0, this.pos));
    this.view = new DataView(this.bytes.buffer);
  }

  byte(byte: number): void {
    this.reserve(1);
    this.bytes[this.pos++] = byte;
  }

  raw(source: Uint8Array): void {
    this.reserve(source.length);
    this.bytes.set(source, this.pos);
    this.pos += source.length;
  }

  /** A header in the smallest of its three forms, whose bytes follow one another, and room for what it announces. */
  header(form8: number, size: number): void {
    this.reserve(6 + size);
    if (size < 0x100) {
      this.bytes[this.pos++] = form8;
      this.bytes[this.pos++] = size;
    } else this.header16(form8 + 1, size);
  }

  header16(form16: number, size: number): void {
    this.reserve(5);
    if (size < 0x10000) {
      this.bytes[this.pos] = form16;
      this.view.setUint16(this.pos + 1, size);
      this.pos += 3;
    } else {
      this.bytes[this.pos] = form16 + 1;
      this.view.setUint32(this.pos + 1, size);
      this.pos += 5;
    }
  }

  ext(type: number, size: number): void {
    const fixed = size === 0 ? -1 : [1, 2, 4, 8, 16].indexOf(size);
    if (fixed < 0) this.header(0xc7, size);
    else this.byte(0xd4 + fixed);
    this.byte(type);
  }

  /** Opens an extension that holds values. It has the widest header, as its size is known only afterwards. */
  open(type: number): number {
    this.reserve(6);
    this.bytes[this.pos] = 0xc9;
    this.bytes[this.pos + 5] = type;
    this.pos += 6;
    return this.pos;
  }

  close(start: number): void {
    this.view.setUint32(start - 5, this.pos - start);
  }

  number(value: number): void {
    this.reserve(9);
    const { bytes, view, pos } = this;
    if (value >>> 0 === value && (value !== 0 || 1 / value > 0)) {
      if (value < 0x80) {
        bytes[pos] = value;
        this.pos += 1;
      } else if (value < 0x100) {
        bytes[pos] = 0xcc;
        bytes[pos + 1] = value;
        this.pos += 2;
      } else if (value < 0x10000) {
        bytes[pos] = 0xcd;
        view.setUint16(pos + 1, value);
        this.pos += 3;
      } else {
        bytes[pos] = 0xce;
        view.setUint32(pos + 1, value);
        this.pos += 5;
      }
    } else if (value < 0 && (value | 0) === value) {
      if (value >= -0x20) {
        bytes[pos] = value;
        this.pos += 1;
      } else if (value >= -0x80) {
        bytes[pos] = 0xd0;
        bytes[pos + 1] = value;
        this.pos += 2;
      } else if (value >= -0x8000) {
        bytes[pos] = 0xd1;
        view.setInt16(pos + 1, value);
        this.pos += 3;
      } else {
        bytes[pos] = 0xd2;
        view.setInt32(pos + 1, value);
        this.pos += 5;
      }
    } else {
      bytes[pos] = 0xcb;
      view.setFloat64(pos + 1, value);
      // An engine may write any of the many NaNs; equal values must have equal bytes.
      if (value !== value) view.setBigUint64(pos + 1, 0x7ff8_0000_0000_0000n);
      this.pos += 9;
    }
  }

  bigint(value: bigint): void {
    this.reserve(9);
    if (BigInt.asIntN(64, value) === value) {
      this.bytes[this.pos] = 0xd3;
      this.view.setBigInt64(this.pos + 1, value);
      this.pos += 9;
    } else if (BigInt.asUintN(64, value) === value) {
      this.bytes[this.pos] = 0xcf;
      this.view.setBigUint64(this.pos + 1, value);
      this.pos += 9;
    } else {
      const magnitude = value < 0n ? -value : value;
      if (magnitude >> BigInt(MAX_BIGINT_BYTES * 8) !== 0n) {
        throw new Refusal(`A bigint of more than ${MAX_BIGINT_BYTES} bytes can't be stored`, "Split it.", "too_large");
      }
      const digits = magnitude.toString(16);
      const bytes = Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, "hex");
      this.ext(EXT.bigint, 1 + bytes.length);
      this.byte(value < 0n ? 1 : 0);
      this.raw(bytes);
    }
  }

  string(value: string): void {
    if (value.length > SHORT_STRING || !this.shortAscii(value)) this.utf8(value);
  }

  /** Writes the string if it is ASCII; else writes nothing that counts. */
  shortAscii(value: string): boolean {
    const { length } = value;
    this.reserve(2 + length);
    const { bytes } = this;
    let pos = this.pos + (length < 0x20 ? 1 : 2);
    for (let i = 0; i < length; i++) {
      const unit = value.charCodeAt(i);
      if (unit > 0x7f) return false;
      bytes[pos++] = unit;
    }
    if (length < 0x20) bytes[this.pos] = 0xa0 | length;
    else {
      bytes[this.pos] = 0xd9;
      bytes[this.pos + 1] = length;
    }
    this.pos = pos;
    return true;
  }

  utf8(value: string): void {
    if (!value.isWellFormed()) {
      throw new Refusal(
        "A string with a lone surrogate can't be stored",
        "Half a character has no UTF-8 form: cut strings between characters, or call toWellFormed().",
      );
    }
    const size = Buffer.byteLength(value);
    if (size < 0x20) this.byte(0xa0 | size);
    else this.header(0xd9, size);
    this.reserve(size);
    const { written } = UTF8.encodeInto(value, this.bytes.subarray(this.pos));
    assert(written === size, "a string's UTF-8 has the size that was announced");
    this.pos += size;
  }

  enter(container: object): void {
    if (++this.depth > MAX_DEPTH) throw new TooDeep(container);
  }

  object(value: object): void {
    const proto: object | null = Object.getPrototypeOf(value);
    if (proto === Object.prototype) return this.plain(value);
    if (Array.isArray(value)) {
      if (proto !== Array.prototype && !isArrayRoot(proto)) throw instance(value);
      return this.array(value);
    }
    const write = proto === null ? undefined : WRITERS.get(proto);
    if (write !== undefined) return write(this, value);
    if (proto !== null && !isRoot(proto)) throw instance(value);
    this.plain(value);
  }

  plain(object: object): void {
    refuseSymbols(object);
    this.fields(object, Object.keys(object));
  }

  fields(object: object, keys: readonly string[]): void {
    this.enter(object);
    if (keys.length < 0x10) this.byte(0x80 | keys.length);
    else this.header16(0xde, keys.length);
    let i = 0;
    try {
      for (; i < keys.length; i++) {
        this.string(keys[i]!);
        this.write((object as Record<string, unknown>)[keys[i]!]);
      }
    } catch (error) {
      throw within(error, object, property(keys[i]!));
    }
    this.depth--;
  }

  array(array: readonly unknown[]): void {
    this.enter(array);
    const { length } = array;
    if (length < 0x10) this.byte(0x90 | length);
    else this.header16(0xdc, length);
    let i = 0;
    try {
      for (; i < length; i++) {
        const item = array[i];
        if (item === undefined && !Object.hasOwn(array, i)) {
          throw new Refusal("An array with holes can't be stored", "Fill it, with null or undefined for instance.");
        }
        this.write(item);
      }
    } catch (error) {
      throw within(error, array, `[${i}]`);
    }
    // There are no holes, so any further key is not an index. Bun takes 40 ns to list each key, and 10 to compare.
    const bare = length > SHORT_ARRAY && isDeepStrictEqual(array, array.slice());
    if (!bare && Object.keys(array).length !== length) throw extras("An array");
    refuseSymbols(array);
    this.depth--;
  }
}

let idle: Writer | undefined;

/** Encodes one value; see `msgpack.ts`. */
export function encode(value: unknown, limitBytes: number = MAX_VALUE_BYTES): Uint8Array<ArrayBuffer> {
  const writer = idle ?? new Writer();
  // A getter may encode something itself: it must not find the scratch buffer that is in use.
  idle = undefined;
  try {
    return writer.run(value, limitBytes);
  } catch (error) {
    throw toRefusal(error).toError();
  } finally {
    if (writer.bytes.length <= KEPT_BYTES) idle = writer;
  }
}
