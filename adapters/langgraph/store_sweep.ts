/**
 * Sweeping a store: deleting what has expired. Nobody sees it any more; this gives the keys back.
 *
 * @module
 */

import { ConflictError } from "../../log/errors.ts";
import type { StoreParts } from "./store_batch.ts";
import { isExpired, type ItemsState } from "./store_items.ts";
import type { VectorsState } from "./vectors.ts";

/** Items deleted in one transaction. */
const BATCH = 500;

/** Deletes the items whose time is over. Resolves with how many went. */
export async function sweep(parts: StoreParts): Promise<number> {
  const root = parts.items([]);
  let count = 0;
  for await (const { thread } of parts.log.threads({ prefix: root })) {
    const namespace = typeof thread === "string" ? [] : thread.slice(root.length);
    let due: string[] = [];
    for await (const { key, value } of parts.log.thread<ItemsState>(parts.items(namespace)).entries()) {
      if (!isExpired(value, parts.now())) continue;
      due.push(key);
      if (due.length < BATCH) continue;
      count += await remove(parts, namespace, due);
      due = [];
    }
    count += await remove(parts, namespace, due);
  }
  return count;
}

async function remove(parts: StoreParts, namespace: readonly string[], keys: readonly string[]): Promise<number> {
  const thread = parts.log.thread<ItemsState>(parts.items(namespace));
  const head = await thread.head();
  const due: string[] = [];
  for (const key of keys) {
    const item = await thread.get(key);
    if (item !== undefined && isExpired(item, parts.now())) due.push(key);
  }
  if (due.length === 0) return 0;
  try {
    await parts.log.batch((batch) => {
      const items = batch.thread<ItemsState>(parts.items(namespace));
      for (const key of due) items.delete(key, { expect: head });
      if (parts.index === undefined) return;
      const vectors = batch.thread<VectorsState>(parts.vectors(namespace));
      for (const key of due) vectors.delete(key);
    });
    return due.length;
  } catch (error) {
    // Somebody wrote meanwhile, perhaps one of these: the next sweep looks again.
    if (error instanceof ConflictError) return 0;
    throw error;
  }
}
