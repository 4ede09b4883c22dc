/**
 * Moving in: copying what another checkpointer holds into a log.
 *
 * @module
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import {
  type BaseCheckpointSaver,
  type ChannelVersions,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";
import { equal } from "../../log/equal.ts";
import { ThreadlogError } from "../../log/errors.ts";
import { compareNames } from "../../log/ids.ts";
import { addressOf, configOf } from "./address.ts";
import { toTree } from "./json_tree.ts";
import type { ThreadlogSaver } from "./saver.ts";

/** How far a copy is. */
export interface CopyProgress {
  /** The checkpoints that are copied, whether by this call or an earlier one. */
  readonly copied: number;
  /** Those of them that were there already. */
  readonly skipped: number;
  /** All that there are. */
  readonly total: number;
  /** The checkpoint that was copied last. */
  readonly config: RunnableConfig;
}

/** How to copy. */
export interface CopyOptions {
  /** Only these threads. Default: all. */
  readonly threadIds?: readonly string[];
  /** Called after each checkpoint. */
  readonly onProgress?: (progress: CopyProgress) => void;
  /** Stops between two checkpoints; calling again goes on from there. */
  readonly signal?: AbortSignal;
}

/** What was copied. */
export interface CopyReport {
  /** Threads. */
  readonly threads: number;
  /** Checkpoints of all their namespaces. */
  readonly checkpoints: number;
  /** Those that an earlier call had copied. */
  readonly skipped: number;
}

/** The checkpoints of one namespace: ids, oldest first. */
interface Line {
  readonly threadId: string;
  readonly namespace: string;
  readonly ids: string[];
}

/**
 * Copies the threads of any checkpointer into a log, with their namespaces, forks and pending writes. Each checkpoint is
 * read back and compared once it is copied: the call rejects at the first that would not come out the same. It may be
 * stopped or fail at any point; calling again copies what is missing.
 *
 * @example
 * ```ts
 * import { MemorySaver } from "@langchain/langgraph-checkpoint";
 * import { copyCheckpoints, ThreadlogSaver } from "threadlog/langgraph";
 *
 * const source = new MemorySaver(); // or a PostgresSaver, a SqliteSaver, ...
 * await using saver = await ThreadlogSaver.open(":memory:"); // or "agent.db"
 * const { checkpoints } = await copyCheckpoints(source, saver, {
 *   onProgress: ({ copied, total }) => console.log(`${copied} of ${total}`),
 * });
 * console.log(`${checkpoints} checkpoints copied, read back and compared`);
 * ```
 */
export async function copyCheckpoints(
  source: BaseCheckpointSaver,
  target: ThreadlogSaver,
  options: CopyOptions = {},
): Promise<CopyReport> {
  const lines = await linesOf(source, options.threadIds);
  const total = lines.reduce((sum, { ids }) => sum + ids.length, 0);
  let copied = 0;
  let skipped = 0;
  for (const line of lines) {
    for (const id of line.ids) {
      options.signal?.throwIfAborted();
      const config = configOf(line.threadId, line.namespace, id);
      const tuple = await source.getTuple(config);
      // Deleted since it was listed.
      if (tuple === undefined) continue;
      if (await copyOne(tuple, line, target)) skipped++;
      copied++;
      options.onProgress?.({ copied, skipped, total, config });
    }
  }
  return { threads: new Set(lines.map(({ threadId }) => threadId)).size, checkpoints: copied, skipped };
}

/** What there is, by namespace: parents before children, and the one that the source calls the latest at the end. */
async function linesOf(source: BaseCheckpointSaver, threadIds: readonly string[] | undefined): Promise<Line[]> {
  const lines = new Map<string, Line & { readonly parents: Map<string, string | undefined> }>();
  const configs = threadIds === undefined ? [{}] : threadIds.map((id) => ({ configurable: { thread_id: id } }));
  for (const config of configs) {
    for await (const tuple of source.list(config)) {
      const { threadId = "", namespace = "", checkpointId = "" } = addressOf(tuple.config);
      const name = JSON.stringify([threadId, namespace]);
      const line = lines.get(name) ?? { threadId, namespace, ids: [], parents: new Map() };
      lines.set(name, line);
      line.parents.set(checkpointId, parentOf(tuple));
    }
  }
  for (const { threadId, namespace, ids, parents } of lines.values()) {
    const latest = await source.getTuple({ configurable: { thread_id: threadId, checkpoint_ns: namespace } });
    const last = latest && addressOf(latest.config).checkpointId;
    const done = new Set<string>();
    for (const id of [...parents.keys()].reverse()) if (id !== last) addLine(id, parents, done, ids);
    if (last !== undefined && parents.has(last)) addLine(last, parents, done, ids);
  }
  return [...lines.values()];
}

/** Adds a checkpoint behind those of its ancestors that are not there yet. */
function addLine(id: string, parents: ReadonlyMap<string, string | undefined>, done: Set<string>, ids: string[]): void {
  const line: string[] = [];
  for (let one: string | undefined = id; one !== undefined && parents.has(one) && !done.has(one);) {
    done.add(one);
    line.push(one);
    one = parents.get(one);
  }
  ids.push(...line.reverse());
}

function parentOf({ parentConfig }: CheckpointTuple): string | undefined {
  return parentConfig && addressOf(parentConfig).checkpointId;
}

/** Copies a checkpoint and compares; true if it was there already. */
async function copyOne(tuple: CheckpointTuple, line: Line, target: ThreadlogSaver): Promise<boolean> {
  const { threadId, namespace } = line;
  const { checkpoint } = tuple;
  const config = configOf(threadId, namespace, checkpoint.id);
  const there = await target.getTuple(config);
  if (there !== undefined && difference(tuple, there) === undefined) return true;
  const parentId = parentOf(tuple);
  const parentConfig = parentId === undefined
    ? { configurable: { thread_id: threadId, checkpoint_ns: namespace } }
    : configOf(threadId, namespace, parentId);
  const parent = parentId === undefined ? undefined : await target.getTuple(parentConfig);
  // First the writes, as in a run: where the checkpoint is there, so are they.
  await copyWrites(tuple.pendingWrites ?? [], config, target);
  await target.put(parentConfig, checkpoint, tuple.metadata ?? ({} as never), changedSince(parent, tuple));
  const back = await target.getTuple(config);
  const part = back === undefined ? "checkpoint" : difference(tuple, back);
  if (part === undefined) return false;
  throw new ThreadlogError("unencodable", `The copy of a checkpoint differs from it in its ${part}`, {
    place: `thread ${JSON.stringify(threadId)}, namespace ${JSON.stringify(namespace)}, checkpoint ${checkpoint.id}`,
    remedy: "Nothing was taken from the source. If it has a serializer of its own, give the same to the saver.",
  });
}

/** The channels that a checkpoint doesn't share with its parent, whatever their versions say. */
function changedSince(parent: CheckpointTuple | undefined, { checkpoint }: CheckpointTuple): ChannelVersions {
  const before = parent?.checkpoint;
  const changed: ChannelVersions = {};
  for (const [name, version] of Object.entries(checkpoint.channel_versions)) {
    const same = before !== undefined && before.channel_versions[name] === version &&
      sameValue(before.channel_values[name], checkpoint.channel_values[name]);
    if (!same) changed[name] = version;
  }
  return changed;
}

/** A tuple has the order of its writes but not the paths of their tasks: where ids don't give it, paths are made up. */
async function copyWrites(
  writes: readonly CheckpointPendingWrite[],
  config: RunnableConfig,
  target: ThreadlogSaver,
): Promise<void> {
  const tasks = new Map<string, CheckpointPendingWrite[]>();
  for (const write of writes) {
    const ofTask = tasks.get(write[0]) ?? [];
    tasks.set(write[0], ofTask);
    ofTask.push(write);
  }
  const names = [...tasks.keys()];
  const isSorted = names.every((name, i) => i === 0 || compareNames(names[i - 1]!, name) < 0);
  for (const [index, task] of names.entries()) {
    const path = isSorted ? "" : `~${String(index).padStart(6, "0")}`;
    const isSpecial = ([, channel]: CheckpointPendingWrite) => Object.hasOwn(WRITES_IDX_MAP, channel);
    const all = tasks.get(task)!;
    // Apart, so that the others are counted from 0, as they were.
    for (const some of [all.filter(isSpecial), all.filter((write) => !isSpecial(write))]) {
      if (some.length > 0) await target.putWrites(config, some.map(([, ...write]) => write), task, path);
    }
  }
}

/** The first part in which two tuples differ, once stored. */
function difference(a: CheckpointTuple, b: CheckpointTuple): string | undefined {
  if (!sameValue({ ...a.checkpoint, channel_values: null }, { ...b.checkpoint, channel_values: null })) {
    return "checkpoint";
  }
  const names = new Set([...Object.keys(a.checkpoint.channel_values), ...Object.keys(b.checkpoint.channel_values)]);
  for (const name of names) {
    if (!sameValue(a.checkpoint.channel_values[name], b.checkpoint.channel_values[name])) {
      return `channel ${JSON.stringify(name)}`;
    }
  }
  if (!sameValue(a.metadata ?? {}, b.metadata ?? {})) return "metadata";
  if (parentOf(a) !== parentOf(b)) return "parent";
  return sameValue(a.pendingWrites ?? [], b.pendingWrites ?? []) ? undefined : "pending writes";
}

function sameValue(a: unknown, b: unknown): boolean {
  return equal(toTree(a), toTree(b));
}
