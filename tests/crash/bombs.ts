/**
 * Cells that claim, nest or unpack to far more than they hold.
 */
import { Buffer } from "node:buffer";
import * as zlib from "node:zlib";

const MIB = 1 << 20;

function repeated(byte: number, times: number): Uint8Array {
  return new Uint8Array(times).fill(byte);
}

function bytes(...parts: (number[] | Uint8Array)[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts.map((part) => Uint8Array.from(part))));
}

function varint(number: number): number[] {
  const out: number[] = [];
  for (; number >= 128; number = Math.floor(number / 128)) out.push(number % 128 + 128);
  return [...out, number];
}

/** MessagePack that is not what it seems, by what is wrong with it. */
export const VALUES: Readonly<Record<string, Uint8Array>> = {
  "nothing": new Uint8Array(0),
  "lists, 100,000 deep": repeated(0x91, 100_000),
  "maps, 100,000 deep": bytes(...Array.from({ length: 100_000 }, () => [0x81, 0xa1, 0x61])),
  "a list of 4 billion": bytes([0xdd, 0xff, 0xff, 0xff, 0xff]),
  "a list of 4 billion, and lists in it": bytes(...Array.from({ length: 100 }, () => [0xdd, 0xff, 0xff, 0xff, 0xff])),
  "lists that claim all that is left": bytes(
    ...Array.from({ length: 120 }, () => [0xdd, 0, 1, 0x86, 0xa0]),
    repeated(0xc0, 100_000),
  ),
  "a map of 4 billion": bytes([0xdf, 0xff, 0xff, 0xff, 0xff]),
  "a string of 4 GB": bytes([0xdb, 0xff, 0xff, 0xff, 0xff, 0x61]),
  "bytes of 4 GB": bytes([0xc6, 0xff, 0xff, 0xff, 0xff, 0]),
  "an extension of 4 GB": bytes([0xc9, 0xff, 0xff, 0xff, 0xff, 1, 0]),
  "a byte without meaning": bytes([0xc1]),
  "a string that is not UTF-8": bytes([0xa2, 0xff, 0xfe]),
  "65,536 empty maps": bytes([0xdd, 0, 1, 0, 0], repeated(0x80, 1 << 16)),
  "keys of the prototype": bytes(
    [0x83, 0xa9],
    Buffer.from("__proto__"),
    [0x81, 0xa8],
    Buffer.from("polluted"),
    [1, 0xab],
    Buffer.from("constructor"),
    [0x81, 0xa9],
    Buffer.from("prototype"),
    [0x81, 0xa8],
    Buffer.from("polluted"),
    [1, 0xa8],
    Buffer.from("toString"),
    [1],
  ),
  "every extension, with noise": bytes(
    [0xdc, 0, 255],
    ...Array.from({ length: 255 }, (_, type) => [0xd6, type, 0xff, 0xff, 0xff, 0xff]),
  ),
};

/** Payloads that unpack to too much: their packing, relative to a whole payload at position 1, and the bytes. */
export function payloads(): Readonly<Record<string, { readonly packing: number; readonly value: Uint8Array }>> {
  const zeros = Buffer.alloc(16 * MIB);
  const frame = zlib.zstdCompressSync(zeros);
  const bomb = Buffer.concat(Array.from({ length: 256 }, () => frame));
  // What the frame says of its length is not what it holds.
  const liar = Buffer.from(frame);
  liar[4]! &= 0x3f;
  const copies = (length: number) => {
    const out: (number[] | Uint8Array)[] = [varint(length)];
    for (let i = 0; i < 100_000; i++) out.push([...varint(2 * 50 + 1), ...varint(i === 0 ? 0 : 2 * 50 - 1)]);
    return bytes(...out);
  };
  return {
    "zstd: 16 MiB of zeros": { packing: 0, value: frame },
    "zstd: 4 GiB of zeros, in frames": { packing: 0, value: bomb },
    "zstd: a damaged header": { packing: 0, value: liar },
    "zstd: cut": { packing: 0, value: frame.subarray(0, frame.length - 3) },
    "zstd: noise": { packing: 0, value: bytes([0x28, 0xb5, 0x2f, 0xfd], repeated(0xff, 100)) },
    "zstd: nothing": { packing: 0, value: new Uint8Array(0) },
    "delta: claims 2^50": { packing: 1, value: bytes(varint(2 ** 50)) },
    "delta: copies a base 100,000 times": { packing: 1, value: copies(5_000_000) },
    "delta: a compressed bomb": { packing: -1, value: bomb },
    "delta: from outside of its base": { packing: 1, value: bytes(varint(100), varint(201), varint(2000)) },
    "delta: a varint without an end": { packing: 1, value: repeated(0xff, 1000) },
    "delta: on itself": { packing: 3, value: bytes(varint(1), [2, 0xc0]) },
    "delta: on what comes later": { packing: 4, value: bytes(varint(1), [2, 0xc0]) },
    "delta: on what is not there": { packing: 999, value: bytes(varint(1), [2, 0xc0]) },
    "delta: on an impossible position": { packing: -Number.MAX_SAFE_INTEGER, value: bytes([1]) },
  };
}
