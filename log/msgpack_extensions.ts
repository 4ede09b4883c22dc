/**
 * How the default codec writes and reads the built-in types beyond JSON's. See `msgpack.ts` for the mapping.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { types } from "node:util";
import type { Reader } from "./msgpack_decode.ts";
import type { Writer } from "./msgpack_encode.ts";
import { BUFFERS, define, ERROR_FIELDS, ERRORS, EXT, MAX_BIGINT_BYTES } from "./msgpack_format.ts";
import { instance, Refusal, refuseExtras, refuseSymbols, undecodable, within } from "./msgpack_refusal.ts";

const MAX_DATE_SECONDS = 8_640_000_000_000n;

type Write = (writer: Writer, value: object) => void;

/** The built-in types other than objects and arrays, by prototype: a subclass is not the type it extends. */
export const WRITERS: ReadonlyMap<object, Write> = new Map<object, Write>([
  [Date.prototype, (writer, value) => writeDate(writer, value as Date)],
  [Map.prototype, (writer, value) => writeMap(writer, value as Map<unknown, unknown>)],
  [Set.prototype, (writer, value) => writeSet(writer, value as Set<unknown>)],
  [RegExp.prototype, (writer, value) => writeRegExp(writer, value as RegExp)],
  [Uint8Array.prototype, (writer, value) => writeBytes(writer, value as Uint8Array)],
  [Buffer.prototype, (writer, value) => writeBytes(writer, value as Uint8Array)],
  ...BUFFERS.map((type, kind): [object, Write] => [
    type.prototype,
    (writer, value) => writeBuffer(writer, value as ArrayBuffer | ArrayBufferView, kind),
  ]),
  ...Array.from(ERRORS, ([name, type]): [object, Write] => [
    type.prototype,
    (writer, value) => writeError(writer, value as Error, name),
  ]),
]);

function writeDate(writer: Writer, date: Date): void {
  refuseExtras(date, "A Date");
  const ms = date.getTime();
  if (Number.isNaN(ms)) throw new Refusal("An invalid Date can't be stored", "Store null where there is no date.");
  const seconds = Math.floor(ms / 1000);
  const nanoseconds = (ms - seconds * 1000) * 1_000_000;
  const size = seconds < 0 || seconds >= 2 ** 34 ? 12 : nanoseconds !== 0 || seconds >= 2 ** 32 ? 8 : 4;
  writer.ext(EXT.timestamp, size);
  writer.reserve(size);
  const { view, pos } = writer;
  if (size === 4) view.setUint32(pos, seconds);
  else if (size === 8) view.setBigUint64(pos, BigInt(nanoseconds) << 34n | BigInt(seconds));
  else {
    view.setUint32(pos, nanoseconds);
    view.setBigInt64(pos + 4, BigInt(seconds));
  }
  writer.pos += size;
}

function writeMap(writer: Writer, map: ReadonlyMap<unknown, unknown>): void {
  refuseExtras(map, "A Map");
  writer.enter(map);
  const start = writer.open(EXT.map);
  let entry = 0;
  let part = "key";
  try {
    for (const [key, value] of map) {
      part = "key";
      writer.write(key);
      part = "value";
      writer.write(value);
      entry++;
    }
  } catch (error) {
    throw within(error, map, `[${part} ${entry}]`);
  }
  writer.close(start);
  writer.depth--;
}

function writeSet(writer: Writer, set: ReadonlySet<unknown>): void {
  refuseExtras(set, "A Set");
  writer.enter(set);
  const start = writer.open(EXT.set);
  let entry = 0;
  try {
    for (const value of set) {
      writer.write(value);
      entry++;
    }
  } catch (error) {
    throw within(error, set, `[value ${entry}]`);
  }
  writer.close(start);
  writer.depth--;
}

function writeRegExp(writer: Writer, regexp: RegExp): void {
  refuseExtras(regexp, "A RegExp");
  if (regexp.lastIndex !== 0) {
    throw new Refusal("A RegExp in mid-search can't be stored", "Set its lastIndex to 0 first.");
  }
  const start = writer.open(EXT.regexp);
  writer.string(regexp.source);
  writer.string(regexp.flags);
  writer.close(start);
}

function refuseDetached(buffer: ArrayBufferLike): void {
  if ((buffer as ArrayBuffer).detached) {
    throw new Refusal("A buffer that was transferred away can't be stored", "Store it before transferring it.");
  }
}

function writeBytes(writer: Writer, bytes: Uint8Array): void {
  refuseDetached(bytes.buffer);
  writer.header(0xc4, bytes.length);
  writer.raw(bytes);
}

function writeBuffer(writer: Writer, value: ArrayBuffer | ArrayBufferView, kind: number): void {
  const bytes = ArrayBuffer.isView(value)
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : new Uint8Array(value);
  refuseDetached(bytes.buffer);
  writer.ext(EXT.buffer, 1 + bytes.length);
  writer.byte(kind);
  writer.raw(bytes);
}

function writeError(writer: Writer, error: Error, name: string): void {
  if (!types.isNativeError(error)) throw instance(error);
  refuseSymbols(error);
  const start = writer.open(EXT.error);
  writer.string(name);
  const shown = Object.keys(error);
  writer.fields(error, ERROR_FIELDS.filter((field) => Object.hasOwn(error, field) && !shown.includes(field)));
  writer.fields(error, shown);
  writer.close(start);
}

type Read = (reader: Reader, at: number) => unknown;

/** How to read each extension, from `pos` to `end`. */
export const READERS: ReadonlyMap<number, Read> = new Map<number, Read>([
  [EXT.timestamp, readDate],
  [EXT.undefined, () => undefined],
  [EXT.map, readMap],
  [EXT.set, readSet],
  [EXT.bigint, readBigint],
  [EXT.buffer, readBuffer],
  [EXT.regexp, readRegExp],
  [EXT.error, readError],
]);

function readDate(reader: Reader, at: number): Date {
  const size = reader.end - reader.pos;
  let seconds: bigint;
  let nanoseconds = 0;
  if (size === 4) seconds = BigInt(reader.uint32());
  else if (size === 8) {
    const both = reader.view.getBigUint64(reader.take(8));
    seconds = BigInt.asUintN(34, both);
    nanoseconds = Number(both >> 34n);
  } else if (size === 12) {
    nanoseconds = reader.uint32();
    seconds = reader.view.getBigInt64(reader.take(8));
  } else throw undecodable("A timestamp has 4, 8 or 12 bytes", at);
  if (nanoseconds >= 1_000_000_000) throw undecodable("A timestamp has more than a second of nanoseconds", at);
  if (nanoseconds % 1_000_000 !== 0) throw undecodable("A timestamp is finer than a Date can hold", at);
  const exact = seconds >= -MAX_DATE_SECONDS && seconds <= MAX_DATE_SECONDS;
  const date = new Date(exact ? Number(seconds) * 1000 + nanoseconds / 1_000_000 : NaN);
  if (Number.isNaN(date.getTime())) throw undecodable("A timestamp is beyond what a Date can hold", at);
  return date;
}

function readMap(reader: Reader, at: number): Map<unknown, unknown> {
  reader.enter(0, at);
  const map = new Map<unknown, unknown>();
  while (reader.pos < reader.end) {
    const keyAt = reader.pos;
    const key = reader.read();
    if (map.has(key)) throw undecodable("A Map's key occurs twice", keyAt);
    map.set(key, reader.read());
  }
  reader.depth--;
  return map;
}

function readSet(reader: Reader, at: number): Set<unknown> {
  reader.enter(0, at);
  const set = new Set<unknown>();
  while (reader.pos < reader.end) {
    const valueAt = reader.pos;
    const value = reader.read();
    if (set.has(value)) throw undecodable("A Set's value occurs twice", valueAt);
    set.add(value);
  }
  reader.depth--;
  return set;
}

function readBigint(reader: Reader, at: number): bigint {
  const sign = reader.uint8();
  const magnitude = reader.copy(reader.end - reader.pos);
  if (sign > 1 || magnitude.length < 8 || magnitude.length > MAX_BIGINT_BYTES || magnitude[0] === 0) {
    throw undecodable("A bigint's sign or size is wrong", at);
  }
  const absolute = BigInt(`0x${Buffer.from(magnitude.buffer).toString("hex")}`);
  const value = sign === 1 ? -absolute : absolute;
  if (BigInt.asIntN(64, value) === value || BigInt.asUintN(64, value) === value) {
    throw undecodable("A bigint of 64 bits has another form", at);
  }
  return value;
}

function readBuffer(reader: Reader, at: number): unknown {
  const type = BUFFERS[reader.uint8()];
  if (type === undefined) throw undecodable("A kind of buffer is unknown", at);
  const size = reader.end - reader.pos;
  if ("BYTES_PER_ELEMENT" in type && size % type.BYTES_PER_ELEMENT !== 0) {
    throw undecodable(`${size} bytes can't be a ${type.name}`, at);
  }
  const { buffer } = reader.copy(size);
  return type === ArrayBuffer ? buffer : new (type as DataViewConstructor)(buffer);
}

function readRegExp(reader: Reader, at: number): RegExp {
  const source = reader.name("A RegExp's source");
  const flags = reader.name("A RegExp's flags");
  try {
    return new RegExp(source, flags);
  } catch (error) {
    throw undecodable("A RegExp is not one that this runtime knows", at, error);
  }
}

function readError(reader: Reader, at: number): Error {
  const type = ERRORS.get(reader.name("An error's type"));
  if (type === undefined) throw undecodable("An error's type is not one of the language's", at);
  const inner = Object.entries(reader.fields());
  const shown = Object.entries(reader.fields());
  const error = new type([] as never); // An AggregateError insists on a list; all else it says is taken back below.
  for (const field of ERROR_FIELDS) Reflect.deleteProperty(error, field);
  for (const [key, value] of inner) {
    if (!ERROR_FIELDS.includes(key)) throw undecodable("An error has an unknown inner field", at);
    define(error, key, value, false);
  }
  for (const [key, value] of shown) define(error, key, value, true);
  return error;
}
