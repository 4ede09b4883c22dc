/**
 * Listing checkpoints, newest first.
 *
 * @module
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import type { CheckpointListOptions, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { invalid } from "../../log/errors.ts";
import { compareNames } from "../../log/ids.ts";
import type { Log } from "../../log/log.ts";
import { addressOf, type Prefix } from "./address.ts";
import type { CheckpointEntry } from "./checkpoint_entry.ts";
import { historyOf, placeOf } from "./checkpoint_history.ts";
import type { CheckpointReader } from "./checkpoint_reader.ts";
import { matchesMetadata } from "./metadata_filter.ts";

/** What a listing needs. */
export interface ListSource {
  readonly log: Log;
  readonly prefix: Prefix;
  reader(threadId: string, namespace: string): CheckpointReader;
}

/** A checkpoint in a listing. */
export interface Listed {
  readonly reader: CheckpointReader;
  readonly entry: CheckpointEntry;
}

/** The tuples that match, newest first. Only those that do are loaded. */
export async function* listTuples(
  source: ListSource,
  config: RunnableConfig,
  options: CheckpointListOptions,
): AsyncGenerator<CheckpointTuple> {
  const { limit, filter } = options;
  if (limit !== undefined && (typeof limit !== "number" || Number.isNaN(limit))) {
    throw invalid("The limit must be a number", "limit", "Leave it out to list all.");
  }
  let left = limit ?? Infinity;
  if (left <= 0) return;
  for await (const { reader, entry } of listEntries(source, config, options.before)) {
    if (filter !== undefined && !matchesMetadata(await reader.metadata(entry), filter)) continue;
    yield await reader.tuple(entry);
    if (--left <= 0) return;
  }
}

/** The checkpoints that a config covers, newest first. */
export async function* listEntries(
  source: ListSource,
  config: RunnableConfig,
  before?: RunnableConfig,
): AsyncGenerator<Listed> {
  const { threadId, namespace, checkpointId } = addressOf(config ?? {});
  const isBefore = await boundOf(source, config, before);
  const entriesOf = (reader: CheckpointReader) => readerEntries(reader, checkpointId, isBefore);
  if (threadId !== undefined && namespace !== undefined) {
    return yield* entriesOf(source.reader(threadId, namespace));
  }
  const cursors: Cursor[] = [];
  const under = threadId === undefined ? ["checkpoints"] : ["checkpoints", threadId];
  const depth = source.prefix.length + 3;
  for await (const { thread, position } of source.log.threads({ prefix: [...source.prefix, ...under] })) {
    if (typeof thread === "string" || thread.length !== depth) continue;
    const [id, ns] = thread.slice(-2) as [string, string];
    if (namespace !== undefined && ns !== namespace) continue;
    cursors.push({ position, next: undefined, entries: entriesOf(source.reader(id, ns)) });
  }
  yield* merge(cursors);
}

type Bound = (entry: CheckpointEntry) => boolean;

/** Which checkpoints are older than `before`: by their place in the log; by id, if it is not in there. */
async function boundOf(source: ListSource, config: RunnableConfig, before?: RunnableConfig): Promise<Bound> {
  if (before === undefined) return () => true;
  const own = addressOf(config ?? {});
  const { checkpointId, threadId = own.threadId, namespace = own.namespace ?? "" } = addressOf(before);
  if (checkpointId === undefined) return () => true;
  const entry = threadId === undefined ? undefined : await source.reader(threadId, namespace).entry(checkpointId);
  if (entry === undefined) return ({ key }) => compareNames(key, checkpointId) < 0;
  const bound = placeOf(entry);
  return (other) => placeOf(other) < bound;
}

async function* readerEntries(
  reader: CheckpointReader,
  id: string | undefined,
  isBefore: Bound,
): AsyncGenerator<Listed> {
  if (id !== undefined) {
    const entry = await reader.entry(id);
    if (entry !== undefined && isBefore(entry)) yield { reader, entry };
    return;
  }
  for await (const entry of historyOf(reader.checkpoints)) if (isBefore(entry)) yield { reader, entry };
}

/** A listing in a merge: nothing that it has yet to give is newer than `position`. */
interface Cursor {
  position: number;
  next: Listed | undefined;
  readonly entries: AsyncGenerator<Listed>;
}

/** Merges listings, newest first. A listing is begun when its thread's last event could be the next. */
async function* merge(cursors: Cursor[]): AsyncGenerator<Listed> {
  // The newest last: taking it is cheap, and so is putting it back a little further down.
  cursors.sort((a, b) => a.position - b.position);
  for (let cursor = cursors.pop(); cursor !== undefined; cursor = cursors.pop()) {
    if (cursor.next !== undefined) yield cursor.next;
    const { value, done } = await cursor.entries.next();
    if (done) continue;
    cursor.next = value;
    cursor.position = placeOf(value.entry);
    let index = cursors.length;
    while (index > 0 && cursors[index - 1]!.position > cursor.position) index--;
    cursors.splice(index, 0, cursor);
  }
}
