/**
 * The hash chain of a thread: what `verify` holds every event against.
 *
 * @module
 */

import { hash } from "node:crypto";
import type { EventInput, StoredEvent } from "./backend.ts";

const utf8 = new TextEncoder();
const NOTHING = new Uint8Array(0);

/** The link before a thread's first event. */
export const FIRST_LINK: Uint8Array = new Uint8Array(32);

type Body = Omit<EventInput, "digest" | "origin">;

/**
 * SHA-256 over an event's content. Every field is preceded by its length, and an absent one differs from an empty one,
 * so no two contents share their bytes. (What a fork or restore continues from is in its value.)
 */
export function digestOf(event: Body | StoredEvent): Uint8Array {
  const names = utf8.encode(`${event.path}\n${event.type}\n${event.key ?? ""}\n${event.id ?? ""}`);
  const value = event.value ?? NOTHING;
  const state = event.state ?? NOTHING;
  const meta = event.meta ?? NOTHING;
  const bytes = new Uint8Array(HEADER + names.length + value.length + state.length + meta.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, event.path.length);
  view.setUint32(4, event.type.length);
  view.setUint32(8, lengthOf(event.key));
  view.setUint32(12, lengthOf(event.id));
  view.setUint32(16, lengthOf(event.value));
  view.setUint32(20, lengthOf(event.state));
  view.setUint32(24, lengthOf(event.meta));
  view.setUint32(28, event.schema);
  view.setUint32(32, event.form);
  view.setFloat64(36, event.base ?? 0);
  let offset = HEADER;
  for (const part of [names, value, state, meta]) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return sha256(bytes);
}

const HEADER = 44;

function lengthOf(field: { readonly length: number } | undefined): number {
  return field === undefined ? 0xffffffff : field.length;
}

/** The next link of a thread's chain. */
export function linkOf(
  previous: Uint8Array,
  digest: Uint8Array,
  position: number,
  version: number,
  time: number,
): Uint8Array {
  const bytes = new Uint8Array(88);
  bytes.set(previous);
  bytes.set(digest, 32);
  const view = new DataView(bytes.buffer);
  view.setBigInt64(64, BigInt(position));
  view.setBigInt64(72, BigInt(version));
  view.setBigInt64(80, BigInt(time));
  return sha256(bytes);
}

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
