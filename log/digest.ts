/**
 * The hash chain of a thread: what `verify` holds every event against.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { hash } from "node:crypto";
import type { EventInput, StoredEvent } from "./backend.ts";

/** The link before a thread's first event. */
export const FIRST_LINK: Uint8Array = new Uint8Array(32);

type Body = Omit<EventInput, "digest" | "origin">;

/** Seven lengths, the schema version and the form of 32 bits each, and the base of 64. */
const HEADER = 44;
/** What stands for the length of what is absent. */
const ABSENT = 0xffffffff;
/** The most bytes of UTF-8 that a UTF-16 unit takes. */
const UTF8_PER_UNIT = 3;
/** A larger scratch buffer is given back: one huge value must not hold its memory for ever. */
const KEPT_BYTES = 1 << 20;

let scratch = Buffer.alloc(8192);

/**
 * SHA-256 over an event's content. Every field is preceded by its length, and an absent one differs from an empty one,
 * so no two contents share their bytes. (What a fork or restore continues from is in its value.)
 */
export function digestOf(event: Body | StoredEvent): Uint8Array {
  const { path, type, key, id, value, state, meta } = event;
  const units = path.length + type.length + (key?.length ?? 0) + (id?.length ?? 0);
  const bytes = (value?.length ?? 0) + (state?.length ?? 0) + (meta?.length ?? 0);
  const room = HEADER + units * UTF8_PER_UNIT + bytes;
  if (room > scratch.length) scratch = Buffer.allocUnsafe(room > KEPT_BYTES ? room : room * 2);
  const out = scratch;
  let end = HEADER;
  end += name(out, 0, end, path);
  end += name(out, 4, end, type);
  end += name(out, 8, end, key);
  end += name(out, 12, end, id);
  end += blob(out, 16, end, value);
  end += blob(out, 20, end, state);
  end += blob(out, 24, end, meta);
  // A damaged row may have any number here; then the link will not fit.
  out.writeUInt32BE(event.schema >>> 0, 28);
  out.writeUInt32BE(event.form >>> 0, 32);
  out.writeBigInt64BE(BigInt(event.base ?? 0), 36);
  if (out.length > KEPT_BYTES) scratch = Buffer.alloc(8192);
  return sha256(out.subarray(0, end));
}

/** Writes text at `end`, and its length in bytes at `at`. */
function name(out: Buffer, at: number, end: number, text: string | undefined): number {
  const length = text === undefined ? 0 : out.write(text, end, "utf8");
  out.writeUInt32BE(text === undefined ? ABSENT : length, at);
  return length;
}

function blob(out: Buffer, at: number, end: number, bytes: Uint8Array | undefined): number {
  if (bytes !== undefined) out.set(bytes, end);
  out.writeUInt32BE(bytes === undefined ? ABSENT : bytes.length, at);
  return bytes?.length ?? 0;
}

/** The next link of a thread's chain. */
export function linkOf(
  previous: Uint8Array,
  digest: Uint8Array,
  position: number,
  version: number,
  time: number,
): Uint8Array {
  linking.set(previous);
  linking.set(digest, 32);
  linkingView.setBigInt64(64, BigInt(position));
  linkingView.setBigInt64(72, BigInt(version));
  linkingView.setBigInt64(80, BigInt(time));
  return sha256(linking);
}

const linking = new Uint8Array(88);
const linkingView = new DataView(linking.buffer);

function sha256(bytes: Uint8Array): Uint8Array {
  const digest = hash("sha256", bytes, "buffer");
  return new Uint8Array(digest.buffer, digest.byteOffset, digest.byteLength);
}

/** Whether two links or digests are the same. */
export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
