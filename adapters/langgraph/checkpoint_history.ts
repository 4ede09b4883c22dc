/**
 * The checkpoints of one namespace, from the end of its thread backward.
 *
 * @module
 */

import { isBuiltIn } from "../../log/event.ts";
import type { Thread } from "../../log/thread.ts";
import type { CheckpointEntry, StoredCheckpoint } from "./checkpoint_entry.ts";

/** Events fetched at first; then four times as many each time. */
const FIRST_PAGE = 16;
const MAX_PAGE = 256;

/** When a checkpoint was first put, as a position of the log: putting it again doesn't move it. */
export function placeOf(entry: CheckpointEntry): number {
  return entry.value.again?.position ?? entry.position;
}

/** The checkpoints that are there, newest first. */
export async function* historyOf(thread: Thread<Record<string, StoredCheckpoint>>): AsyncGenerator<CheckpointEntry> {
  // Keys that were met further up: with the entry that counts, or undefined for those that are gone or were listed.
  const met = new Map<string, CheckpointEntry | undefined>();
  let size = FIRST_PAGE;
  let { version: to } = await thread.head();
  while (to > 0) {
    let count = 0;
    for await (const event of thread.replay({ to, limit: size, reverse: true })) {
      count++;
      to = event.version - 1;
      if (!isBuiltIn(event)) continue;
      if (event.type === "erase") return;
      if (event.type === "delete" && !met.has(event.key)) met.set(event.key, undefined);
      if (event.type !== "set") continue;
      const { key } = event;
      const value = event.value as StoredCheckpoint;
      const entry: CheckpointEntry | undefined = met.has(key) ? met.get(key) : { ...event, key, value };
      if (entry === undefined) continue;
      met.set(key, value.again === undefined ? undefined : entry);
      if (value.again === undefined) yield entry;
    }
    if (count < size) return;
    size = Math.min(size * 4, MAX_PAGE);
  }
}
