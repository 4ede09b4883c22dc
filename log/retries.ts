/**
 * Telling a retry from another append under the same id.
 *
 * @module
 */

import type { AppendRequest, EventInput, StoredEvent } from "./backend.ts";
import type { Core } from "./core.ts";
import { equal } from "./equal.ts";
import { ThreadlogError } from "./errors.ts";
import { showPath } from "./ids.ts";

/**
 * Ids of a request were used before. It is a retry if the events that stand in its place are the same, whatever the
 * head is by now; then those are its result.
 */
export async function settle(
  core: Core,
  request: AppendRequest,
  found: readonly (StoredEvent | undefined)[],
): Promise<readonly StoredEvent[]> {
  const index = found.findIndex((event) => event !== undefined);
  const start = found[index]!.position - index;
  const earlier = await core.backend.read({
    after: start - 1,
    to: start + request.events.length - 1,
    limit: request.events.length,
  });
  const byPosition = new Map(earlier.map((event) => [event.position, event]));
  const kept = request.events.map((_, i) => byPosition.get(start + i));
  const isSame = kept.map((event, i) => event !== undefined && isRetry(core, request.events[i]!, event));
  if (isSame.every(Boolean)) return kept as StoredEvent[];
  const id = JSON.stringify(request.events[index]!.id);
  const place = (i: number) => `thread ${showPath(request.events[i]!.path)}, position ${start + i}`;
  if (isSame.every((same, i) => same || kept[i] === undefined)) {
    const gone = kept.indexOf(undefined);
    const now = { position: core.keyspace.root.position };
    const thread = start + gone > now.position ? undefined : await core.backend.thread(request.events[gone]!.path, now);
    if (thread !== undefined && thread.erased > 0) {
      throw new ThreadlogError("erased", `The batch under the id ${id} was kept, and part of it erased since`, {
        place: place(gone),
        remedy: "It is done: don't retry it. Nothing was written.",
      });
    }
  }
  if (isSame.includes(true)) {
    throw new ThreadlogError("id_conflict", `The batch differs from the one that was kept under the id ${id}`, {
      place: place(isSame.indexOf(false)),
      remedy: "Retry a batch as it was, or give a new one ids of its own; nothing was written.",
    });
  }
  throw new ThreadlogError("id_conflict", `The id ${id} was used for something else`, {
    place: place(index),
    remedy: "Give each new append an id of its own; nothing was written.",
  });
}

function isRetry({ records }: Core, input: EventInput, stored: StoredEvent): boolean {
  if (input.path !== stored.path || input.type !== stored.type) return false;
  if (input.key !== stored.key || input.id !== stored.id) return false;
  const asked = records.event({ ...stored, ...input, schema: input.schema });
  const kept = records.event(stored);
  // A patch depends on the state it met, so that only what it was meant for can be compared.
  return equal(asked.meta, kept.meta) && (input.type === "patch" || equal(asked.value, kept.value));
}
