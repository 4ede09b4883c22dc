/**
 * The tables that define the default codec's format; both halves read them. See `msgpack.ts` for the mapping.
 *
 * @module
 */

/** How deep containers may nest, both ways. It also bounds the stack that a hostile payload can use. */
export const MAX_DEPTH = 128;
/** The most bytes that one value may take, unless told otherwise. */
export const MAX_VALUE_BYTES = 64 * 1024 * 1024;
/** The most bytes of magnitude in a bigint. Bun's bigints end at 131,072: what one runtime writes all must read. */
export const MAX_BIGINT_BYTES = 65_536;

/** The extension types. Files hold these numbers: never change one, never use one again. */
export const EXT = { timestamp: -1, undefined: 1, map: 2, set: 3, bigint: 4, buffer: 5, regexp: 6, error: 7 } as const;

/** The kinds of buffer in extension 5; a kind's number is its index, so append only. Uint8Array is a plain bin. */
export const BUFFERS = [
  ArrayBuffer,
  DataView,
  Int8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
] as const;

/** The errors of extension 7, by the name on disk. */
export const ERRORS: ReadonlyMap<string, new (argument: never) => Error> = new Map(Object.entries({
  Error,
  AggregateError,
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
}));

/** What the engine itself puts on an error, out of enumeration's sight. */
export const ERROR_FIELDS: readonly string[] = ["message", "stack", "cause", "errors"];

/** Defines instead of assigning, so that neither a setter nor a prototype is ever reached. */
export function define(object: object, key: string, value: unknown, enumerable: boolean): void {
  Object.defineProperty(object, key, { value, enumerable, writable: true, configurable: true });
}
