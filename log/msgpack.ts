/**
 * The default codec: standard MessagePack, strict both ways. What it accepts comes back equal; everything else is
 * refused, at the place where it sits, before anything is written.
 *
 * | JavaScript | on disk | |
 * |---|---|---|
 * | `null`, booleans | nil, bool | |
 * | number, integral, -2^31 to 2^32 - 1 | the smallest int form | -0 is not an integer here |
 * | any other number | float64 | -0, NaN and the infinities included |
 * | bigint of 64 bits | int64 or else uint64 | always: these forms read as bigint, all others as number |
 * | larger bigint | ext 4 | sign byte (1: negative), then the magnitude, big-endian; at most 64 KiB |
 * | string | str, UTF-8 | no lone surrogates, keys included |
 * | `Uint8Array`, `Buffer` | bin | reads as a `Uint8Array` that is a copy |
 * | array | array | no holes, no properties beside the items |
 * | plain object | map with string keys | own enumerable properties; no prototype reads as a plain object |
 * | `Date` | ext -1, the standard timestamp | no invalid dates |
 * | `undefined` | ext 1, empty | |
 * | `Map` | ext 2: key, value, key, value… | in order; keys may be of any type |
 * | `Set` | ext 3: value, value… | in order |
 * | `ArrayBuffer`, `DataView`, other typed arrays | ext 5: kind byte, raw bytes | little-endian; no `Float16Array` |
 * | `RegExp` | ext 6: source, flags | `lastIndex` must be 0 |
 * | `Error` and the built-in errors | ext 7: type, map of inner fields, map of own properties | see below |
 *
 * An error keeps its type, `message`, `stack`, `cause`, `errors` and own enumerable properties. Only the eight types
 * of the language itself can be stored, and only they can be named by a payload: nothing is looked up elsewhere,
 * nothing is run.
 *
 * Refused as `unencodable`: functions, symbols and symbol keys, class instances (subclasses of the types above too),
 * boxed primitives, promises and weak collections, cycles, nesting beyond {@link MAX_DEPTH}, getters that throw, and
 * properties added to a Date, Map, Set, RegExp, ArrayBuffer or DataView. Refused as `too_large`: more than
 * {@link MAX_VALUE_BYTES}.
 *
 * Not kept, and not noticed: non-enumerable properties, getters (what they return is stored), whether an object is
 * frozen, whether two places share one object, a buffer being resizable, properties added to a typed array.
 *
 * Refused as `undecodable`: whatever this writer can't have written, with two exceptions for other writers of
 * MessagePack: float32 and int forms that are not the smallest are read.
 *
 * @module
 */

import type { Codec } from "./codec.ts";
import { decode } from "./msgpack_decode.ts";
import { encode } from "./msgpack_encode.ts";

export { MAX_BIGINT_BYTES, MAX_DEPTH, MAX_VALUE_BYTES } from "./msgpack_format.ts";

/**
 * The default codec. Its name is what a log remembers of it.
 *
 * @example
 * ```ts
 * import { msgpack } from "./msgpack.ts";
 *
 * const bytes = msgpack.encode({ seen: new Set(["a"]), at: new Date(0) });
 * console.log(msgpack.decode(bytes)); // { seen: Set(1) { "a" }, at: 1970-01-01T00:00:00.000Z }
 * ```
 */
export const msgpack: Codec = {
  name: "threadlog-msgpack/1",
  encode: (value: unknown): Uint8Array => encode(value),
  decode,
};
