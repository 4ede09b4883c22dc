/**
 * What is written: the same on every run.
 *
 * @module
 */

import type { Checkpoint, CheckpointMetadata } from "@langchain/langgraph-checkpoint";

/** A stream of numbers in [0, 1), the same for a seed. */
export function randoms(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

const LETTERS = "abcdefghijklmnopqrstuvwxyz      ";

/** Text of some length that does not repeat. */
export function text(length: number, random: () => number): string {
  let result = "";
  while (result.length < length) result += LETTERS[Math.floor(random() * LETTERS.length)];
  return result;
}

/** Different values of about some bytes each, to be used in turn. */
export function values(bytes: number, count = 64): { readonly n: number; readonly s: string }[] {
  const random = randoms(bytes);
  return Array.from({ length: count }, (_, n) => ({ n, s: text(bytes - 10, random) }));
}

/** The payload P of swarmstate's tables; with `changed`, every message is another one than before. */
export function payload(changed = ""): Record<string, unknown> {
  const messages = Array.from({ length: 20 }, (_, i) => ({
    role: i % 2 === 0 ? "user" : "assistant",
    content: `message number ${i}${changed} `.repeat(8),
  }));
  return { messages, step: 1 };
}

/** A checkpoint that holds some channels; its id counts up. */
export function checkpoint(
  index: number,
  channels: Record<string, unknown>,
  version = 1,
): Checkpoint {
  const versions = Object.fromEntries(Object.keys(channels).map((name) => [name, version]));
  return {
    v: 4,
    id: idOf(index),
    ts: new Date(1_700_000_000_000 + index).toISOString(),
    channel_values: channels,
    channel_versions: versions,
    versions_seen: {},
  };
}

/** The id of a checkpoint. */
export function idOf(index: number): string {
  return `1f000000-0000-6000-8000-${String(index).padStart(12, "0")}`;
}

/** The metadata of every checkpoint. */
export const METADATA = { source: "loop", step: 1, writes: {}, parents: {} } as CheckpointMetadata;
