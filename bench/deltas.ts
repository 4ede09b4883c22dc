/**
 * Ways to keep a value by what has changed since the one before it.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import * as zlib from "node:zlib";
import { applyDeltas, makeDelta } from "../log/delta.ts";
import { apply, diff } from "../log/json_patch.ts";
import { msgpack } from "../log/msgpack.ts";
import type { Operation } from "../mod.ts";

/** A value that is in memory, and its bytes. */
export interface Version {
  readonly value: unknown;
  readonly bytes: Uint8Array;
}

/** What is stored of a value. */
export interface Link {
  readonly isWhole: boolean;
  readonly bytes: Uint8Array;
}

/** A way to store one version after the other. */
export interface Way {
  readonly name: string;
  /** From a value to what is stored, with the version before it in memory. */
  readonly make: (before: Version, next: unknown) => Link;
  /** From what is stored to a value: a whole one, and the deltas that lead on from it. */
  readonly read: (whole: Uint8Array, deltas: readonly Uint8Array[]) => unknown;
}

/** Ours, which the others are held against. */
export const OURS = "copy and insert (log/delta.ts)";

const MAX_BYTES = 64 << 20;

/** A way that makes bytes of bytes; what is no shorter than the value is not kept. */
function binary(
  name: string,
  delta: (base: Uint8Array, next: Uint8Array) => Uint8Array | undefined,
  follow: (base: Uint8Array, deltas: readonly Uint8Array[]) => Uint8Array,
): Way {
  return {
    name,
    make: ({ bytes: base }, value) => {
      const next = msgpack.encode(value);
      const made = delta(base, next);
      return made === undefined || made.length >= next.length
        ? { isWhole: true, bytes: next }
        : { isWhole: false, bytes: made };
    },
    read: (whole, deltas) => msgpack.decode(follow(whole, deltas)),
  };
}

/** One delta after the other, with all bytes in between. */
function oneByOne(apply: (base: Uint8Array, delta: Uint8Array) => Uint8Array) {
  return (whole: Uint8Array, deltas: readonly Uint8Array[]) => {
    let bytes = whole;
    for (const delta of deltas) bytes = apply(bytes, delta);
    return bytes;
  };
}

const whole: Way = {
  name: "whole",
  make: (_, value) => ({ isWhole: true, bytes: msgpack.encode(value) }),
  read: (bytes) => msgpack.decode(bytes),
};

const LEVEL_1 = { [zlib.constants.ZSTD_c_compressionLevel]: 1, [zlib.constants.ZSTD_c_windowLog]: 21 };

const compressed: Way = {
  name: "whole, zstd",
  make: (_, value) => ({ isWhole: true, bytes: zlib.zstdCompressSync(msgpack.encode(value), { params: LEVEL_1 }) }),
  read: (bytes) => msgpack.decode(zlib.zstdDecompressSync(bytes)),
};

const patches: Way = {
  name: "patch (log/json_patch.ts)",
  make: (before, value) => ({ isWhole: false, bytes: msgpack.encode(diff(before.value, value)) }),
  read: (bytes, deltas) => {
    let value = msgpack.decode(bytes);
    for (const delta of deltas) value = apply(value, msgpack.decode(delta) as Operation[]);
    return value;
  },
};

const ours = binary(
  OURS,
  (base, next) => makeDelta(base, next, next.length),
  (bytes, deltas) => applyDeltas(bytes, deltas, MAX_BYTES),
);

/** Below this zstd finds nothing in a delta that pays for its own header. */
const MIN_COMPRESSED = 128;

/** The first byte tells whether the rest is compressed. */
const oursCompressed = binary(
  `${OURS}, then zstd`,
  (base, next) => {
    const delta = makeDelta(base, next, next.length);
    if (delta === undefined) return undefined;
    const small = delta.length < MIN_COMPRESSED ? delta : zlib.zstdCompressSync(delta, { params: LEVEL_1 });
    const isSmall = small.length < delta.length;
    return Buffer.concat([Uint8Array.of(isSmall ? 1 : 0), isSmall ? small : delta]);
  },
  (bytes, deltas) => {
    const inflated = deltas.map((delta) =>
      delta[0] === 1 ? zlib.zstdDecompressSync(delta.subarray(1)) : delta.subarray(1)
    );
    return applyDeltas(bytes, inflated, MAX_BYTES);
  },
);

const zstd = binary(
  "zstd, the one before as dictionary",
  (dictionary, next) => zlib.zstdCompressSync(next, { params: LEVEL_1, dictionary }),
  oneByOne((dictionary, delta) => zlib.zstdDecompressSync(delta, { dictionary })),
);

/** Deflate looks back 32 KiB, so that is what it is given of the value before. */
const REACH = 32768;
const deflate = binary(
  "deflate, the end of the one before as dictionary",
  (base, next) => zlib.deflateRawSync(next, { dictionary: base.subarray(-REACH) }),
  oneByOne((base, delta) => zlib.inflateRawSync(delta, { dictionary: base.subarray(-REACH) })),
);

/** Those that this runtime has. */
export async function ways(): Promise<Way[]> {
  const fossil = await fossilDelta();
  const withDictionary = takesDictionary() ? [zstd, deflate] : [];
  return [whole, compressed, patches, ours, oursCompressed, ...fossil ? [fossil] : [], ...withDictionary];
}

async function fossilDelta(): Promise<Way | undefined> {
  const file = join(process.env.THREADLOG_BENCH_PEERS ?? "", "node_modules/fossil-delta/fossil-delta.js");
  if (!existsSync(file)) return undefined;
  const { createDelta, applyDelta } = await import(pathToFileURL(file).href);
  // None of the others checks what it read, either: the log does that.
  const follow = oneByOne((base, delta) => applyDelta(base, delta, { verifyChecksum: false }));
  return binary("fossil-delta 2.0.0", createDelta, follow);
}

/** Deno 2.9 has the functions, but leaves dictionaries out. */
function takesDictionary(): boolean {
  const dictionary = crypto.getRandomValues(new Uint8Array(1000));
  return zlib.zstdCompressSync(dictionary, { dictionary }).length < 100;
}
