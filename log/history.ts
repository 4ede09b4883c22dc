/**
 * Questions about a thread's past: which event is to blame, and when something first held.
 *
 * @module
 */

import { setImmediate as nextTurn } from "node:timers/promises";
import type { Chain, StoredEvent } from "./backend.ts";
import type { Core } from "./core.ts";
import { equal } from "./equal.ts";
import type { ThreadPath } from "./ids.ts";
import { hasAt, parsePointer, valueAt } from "./json_patch.ts";
import type { Version } from "./position.ts";

/** Events fetched at a time. */
const PAGE = 256;

/** The newest event that changed what a pointer into a key's value points at; undefined if nothing ever did. */
export async function blame(
  core: Core,
  path: ThreadPath,
  key: string,
  pointer: string,
  head: Version,
): Promise<StoredEvent | undefined> {
  const segments = parsePointer(pointer);
  let chain = await entryBefore(core, path, key, head);
  if (chain.length === 0) return await lastRemoval(core, path, key, head);
  let value = core.records.value(chain).read();
  for (let step = 1;; step++) {
    // A key may have very many versions: others have their turn in between.
    if (step % PAGE === 0) await nextTurn();
    const event = chain[0]!;
    const earlier = await entryBefore(core, path, key, event.version - 1);
    if (earlier.length === 0) return hasAt(value, segments) ? event : undefined;
    const before = core.records.value(earlier).read();
    const same = hasAt(before, segments) === hasAt(value, segments) &&
      equal(valueAt(before, segments), valueAt(value, segments));
    if (!same) return event;
    chain = earlier;
    value = before;
  }
}

async function entryBefore(core: Core, path: ThreadPath, key: string, version: Version): Promise<Chain> {
  return version === 0 ? [] : await core.backend.entry(path, key, { version });
}

/** The event by which a key that is not there went: its deletion, or a restore to before it. */
async function lastRemoval(
  core: Core,
  path: ThreadPath,
  key: string,
  head: Version,
): Promise<StoredEvent | undefined> {
  let restore: StoredEvent | undefined;
  for (let to = head; to > 0;) {
    const page = await core.backend.history(path, { from: 1, to, limit: PAGE, reverse: true });
    for (const event of page) {
      if (event.key === key) return event.type === "delete" ? event : restore;
      if (event.type === "restore") restore ??= event;
    }
    if (page.length < PAGE) return undefined;
    to = page.at(-1)!.version - 1;
  }
  return undefined;
}

/** The first version in [low, high] for which a predicate holds, given that it holds for all later ones. */
export async function bisect(
  low: Version,
  high: Version,
  holds: (version: Version) => Promise<boolean>,
): Promise<Version | undefined> {
  if (low > high || !await holds(high)) return undefined;
  let first = low;
  let known = high;
  while (first < known) {
    const middle = Math.floor((first + known) / 2);
    if (await holds(middle)) known = middle;
    else first = middle + 1;
  }
  return known;
}
