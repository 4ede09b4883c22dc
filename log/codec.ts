/**
 * The port for codecs: how values become bytes and come back. Whatever codec is plugged in, a value that would not
 * come back equal is refused before anything is written.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { guarded } from "./arguments.ts";
import { invalid, ThreadlogError } from "./errors.ts";
import { msgpack } from "./msgpack.ts";
import { encode } from "./msgpack_encode.ts";
import { property, shortened } from "./msgpack_refusal.ts";

/**
 * Turns values into bytes and back. A module fits as it is: `import * as msgpack from "@std/msgpack"`.
 *
 * The two are declared as methods so that codecs for narrower types fit; what such a codec can't store, it refuses.
 */
export interface Codec {
  /** What the log remembers the codec by. Without one, it goes by the bytes that the codec makes of a sample. */
  readonly name?: string;
  /** Turns a value into bytes, or throws. */
  encode(value: unknown): Uint8Array;
  /** Turns bytes back into a value, or throws. */
  decode(bytes: Uint8Array): unknown;
}

/** What nameless codecs are told apart by. Never change it: files hold its hash. */
const SAMPLE: unknown = { threadlog: "é", numbers: [0, -1, 1.5, 300, 70_000], flags: [true, false, null], empty: {} };
const SAMPLE_LIMIT_BYTES = 65_536;

/** What a log remembers of its codec: its name, or a hash of what it makes of a sample. */
export function codecId(codec: Codec): string {
  const name: unknown = guarded("options.codec", () => codec.name);
  if (typeof name === "string" && name !== "") return name;
  const sample = encodeStrictly(codec, SAMPLE, SAMPLE_LIMIT_BYTES);
  if (!isDeepStrictEqual(sample, encodeStrictly(codec, SAMPLE, SAMPLE_LIMIT_BYTES))) {
    throw invalid(
      "A codec that makes different bytes of the same value can't be recognised by them",
      "codec",
      "Give the codec a name.",
    );
  }
  return `custom:${createHash("sha256").update(sample).digest("hex").slice(0, 16)}`;
}

/** Encodes, and makes sure that the value will come back equal. */
export function encodeStrictly(codec: Codec, value: unknown, limitBytes: number): Uint8Array {
  if (codec === msgpack) return encode(value, limitBytes);
  try {
    return encodeChecked(codec, value, limitBytes);
  } catch (error) {
    if (value !== undefined || !(error instanceof ThreadlogError && error.code === "unencodable")) throw error;
    throw new ThreadlogError("unencodable", "The codec can't keep `undefined`, the value of an event without one", {
      place: "$",
      remedy: "Pass a value that it keeps, such as null, or use the default codec.",
      cause: error.cause,
    });
  }
}

function encodeChecked(codec: Codec, value: unknown, limitBytes: number): Uint8Array {
  const bytes = attempt("unencodable", "The codec can't encode this value", "$", () => {
    const encoded: unknown = codec.encode(value);
    if (encoded instanceof Uint8Array) return new Uint8Array(encoded); // A copy: codecs may reuse their buffers.
    throw new TypeError("encode() must return a Uint8Array");
  });
  if (bytes.length === 0) {
    throw new ThreadlogError("unencodable", "The codec made no bytes of this value", {
      place: "$",
      remedy: "Use a codec that gives each value at least one byte: some databases can't tell none from nothing.",
    });
  }
  if (bytes.length > limitBytes) {
    throw new ThreadlogError("too_large", `A value that takes more than ${limitBytes} bytes can't be stored`, {
      place: "$",
      remedy: "Split it over several keys or events, or keep it elsewhere and store a reference.",
    });
  }
  const back = attempt("unencodable", "The codec can't decode what it made of this value", "$", () => {
    return codec.decode(new Uint8Array(bytes));
  });
  const place = attempt("unencodable", "Reading this value threw", "$", () => {
    return firstDifference(value, back, "$", new Map());
  });
  if (place === undefined) return bytes;
  throw new ThreadlogError("unencodable", "The codec would not bring this value back as it is", {
    place: shortened(place),
    remedy: "Store plain data that the codec keeps, or use the default codec.",
  });
}

/** Decodes; whatever the codec throws becomes an error that says so. */
export function decodeStrictly(codec: Codec, bytes: Uint8Array): unknown {
  if (codec === msgpack) return codec.decode(bytes);
  // A copy, because decoders may return views of their input, and what is stored must not change with them.
  return attempt("undecodable", "The codec can't decode these bytes", undefined, () => {
    return codec.decode(new Uint8Array(bytes));
  });
}

function attempt<T>(code: "unencodable" | "undecodable", what: string, place: string | undefined, action: () => T): T {
  try {
    return action();
  } catch (error) {
    if (error instanceof ThreadlogError) throw error;
    const remedy = code === "unencodable"
      ? "Store plain data that the codec keeps, or use the default codec."
      : "Open the log with the codec that wrote it; if it is that one, the bytes are damaged.";
    throw new ThreadlogError(code, what, { ...(place === undefined ? {} : { place }), remedy, cause: error });
  }
}

/**
 * The path to the first place where two values differ, if any. It tells apart all that `Object.is` does, undefined
 * from absent, and every type; a Buffer counts as the bytes it holds, and an object without a prototype as plain.
 */
function firstDifference(a: unknown, b: unknown, place: string, met: Map<object, object>): string | undefined {
  if (Object.is(a, b)) return undefined;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return place;
  if (met.get(a) === b) return undefined; // Met higher up, or before: compared there.
  met.set(a, b);
  if (a instanceof Uint8Array && b instanceof Uint8Array) {
    return isDeepStrictEqual(new Uint8Array(a), new Uint8Array(b)) ? undefined : place;
  }
  if (prototypeOf(a) !== prototypeOf(b)) return place;
  if (a instanceof Map && b instanceof Map) {
    return firstDifference([...a.keys()], [...b.keys()], `${place}.keys()`, met) ??
      firstDifference([...a.values()], [...b.values()], `${place}.values()`, met);
  }
  if (a instanceof Set && b instanceof Set) return firstDifference([...a], [...b], `${place}.values()`, met);
  const isList = Array.isArray(a);
  if (!isList && prototypeOf(a) !== Object.prototype) return isDeepStrictEqual(a, b) ? undefined : place;
  const keys = enumerableKeys(a);
  for (const key of keys) {
    const inner = place + step(key, isList);
    if (!Object.hasOwn(b, key)) return inner;
    const difference = firstDifference(Reflect.get(a, key), Reflect.get(b, key), inner, met);
    if (difference !== undefined) return difference;
  }
  const others = new Set(keys);
  const added = enumerableKeys(b).find((key) => !others.has(key));
  if (added !== undefined) return place + step(added, isList);
  return isList && a.length !== (b as unknown[]).length ? place : undefined;
}

function prototypeOf(object: object): object {
  return Object.getPrototypeOf(object) ?? Object.prototype;
}

function enumerableKeys(object: object): (string | symbol)[] {
  return Reflect.ownKeys(object).filter((key) => Object.prototype.propertyIsEnumerable.call(object, key));
}

function step(key: string | symbol, isList: boolean): string {
  if (typeof key === "symbol") return `[${String(key)}]`;
  return isList && /^\d+$/.test(key) ? `[${key}]` : property(key);
}
