/**
 * LangGraph's checkpointer over a log.
 *
 * @module
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type DeltaChannelHistory,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import { takeOptions } from "../../log/arguments.ts";
import type { EventInput } from "../../log/backend.ts";
import { invalid } from "../../log/errors.ts";
import { parseThreadId } from "../../log/ids.ts";
import { coreOf, type Log } from "../../log/log.ts";
import { openLog, type OpenOptions } from "../../log/open.ts";
import type { Thread } from "../../log/thread.ts";
import { forkInput } from "../../log/writes.ts";
import { addressOf, checkpointsPath, configOf, type Prefix, writeAddressOf } from "./address.ts";
import { deltaHistory, lineOf } from "./ancestors.ts";
import { encodeCheckpoint } from "./checkpoint_entry.ts";
import { listTuples } from "./checkpoint_list.ts";
import { CheckpointReader, type CheckpointsState } from "./checkpoint_reader.ts";
import { CheckpointWriter } from "./checkpoint_writer.ts";
import { appendWrites, planWrites } from "./pending_writes.ts";
import { RecentValues } from "./recent_values.ts";
import { prune, type PruneOptions, stayingOf } from "./retention.ts";
import { Turns } from "./turns.ts";
import type { Serde, Stored } from "./value_codec.ts";

/** How many threads and namespaces are kept at hand: about a kilobyte each. */
const MAX_READERS = 1000;

/** How a saver is set up. */
export interface SaverOptions {
  /** Labels that all its threads begin with. Savers with different prefixes share a log without seeing each other. */
  readonly prefix?: readonly string[];
  /** Writes values in another way than LangGraph's own serializer does. */
  readonly serde?: Serde;
}

/**
 * Keeps the checkpoints of LangGraph graphs in a log.
 *
 * @example
 * ```ts
 * import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
 * import { ThreadlogSaver } from "threadlog/langgraph";
 *
 * await using checkpointer = await ThreadlogSaver.open(":memory:"); // or "agent.db"
 * const graph = new StateGraph(Annotation.Root({ count: Annotation<number>() }))
 *   .addNode("add", ({ count }) => ({ count: count + 1 }))
 *   .addEdge(START, "add")
 *   .addEdge("add", END)
 *   .compile({ checkpointer });
 * const config = { configurable: { thread_id: "support-42" } };
 * await graph.invoke({ count: 1 }, config);
 * console.log((await graph.getState(config)).values); // { count: 2 }
 * ```
 */
export class ThreadlogSaver extends BaseCheckpointSaver implements AsyncDisposable {
  /** The log that it writes to. */
  readonly log: Log;
  readonly #prefix: Prefix;
  readonly #turns = new Turns();
  readonly #writer: CheckpointWriter;
  readonly #recent = new RecentValues();
  readonly #readers = new Map<string, CheckpointReader>();
  #owned = false;

  /** A saver over an open log, which stays the caller's to close. */
  constructor(log: Log, options: SaverOptions = {}) {
    const { prefix = [], serde } = takeOptions(options, ["prefix", "serde"]);
    super(serde);
    this.log = log;
    this.#writer = new CheckpointWriter(log);
    this.#prefix = Object.freeze([...prefix]);
  }

  /** Opens a log and a saver over it; closing the saver closes the log. */
  static async open(path: string, options: SaverOptions & OpenOptions = {}): Promise<ThreadlogSaver> {
    const { prefix, serde, ...opening } = options;
    const saver = new ThreadlogSaver(await openLog(path, opening), { prefix, serde });
    saver.#owned = true;
    return saver;
  }

  /** Closes the log, if `open` opened it. */
  async close(): Promise<void> {
    if (this.#owned) await this.log.close();
  }

  /** The same, at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The thread of the log that holds the checkpoints of a config: an entry for each, its key the checkpoint's id. */
  thread(config: RunnableConfig): Thread<CheckpointsState> {
    const { threadId, namespace } = writeAddressOf(config, "a thread");
    return this.log.thread(checkpointsPath(this.#prefix, threadId, namespace));
  }

  /** A checkpoint with its pending writes: the newest of its thread and namespace, if the config names none. */
  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const { threadId, namespace = "", checkpointId } = addressOf(config);
    if (threadId === undefined) return undefined;
    const reader = this.#reader(threadId, namespace);
    const entry = await reader.entry(checkpointId);
    return entry && await reader.tuple(entry);
  }

  /** Checkpoints with their pending writes, newest first: of a thread and namespace, or of all. */
  async *list(config: RunnableConfig, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const reader = (threadId: string, namespace: string) => this.#reader(threadId, namespace);
    yield* listTuples({ log: this.log, prefix: this.#prefix, reader }, config, options);
  }

  /** Keeps a checkpoint. Its parent is the one that the config names. */
  async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const { threadId, namespace, checkpointId: parentId } = writeAddressOf(config, "checkpoint");
    const { id } = checkpoint;
    if (typeof id !== "string" || id === "") {
      throw invalid("Failed to put checkpoint. Its id is not a string", "checkpoint.id", "Make one with uuid6().");
    }
    const encoded = encodeCheckpoint(this.serde, checkpoint, metadata, newVersions);
    const reader = this.#reader(threadId, namespace);
    await this.#turns.take(threadId, encoded, (ready) => this.#writer.put(reader, ready, parentId));
    return configOf(threadId, namespace, id);
  }

  /** Keeps what a task has written so far, for the checkpoint that the config names: it may itself come later. */
  async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath = ""): Promise<void> {
    const { threadId, namespace, checkpointId } = writeAddressOf(config, "writes");
    if (checkpointId === undefined) {
      throw invalid(
        'Failed to put writes. The passed RunnableConfig is missing a required "checkpoint_id" field in its ' +
          '"configurable" property',
        "configurable.checkpoint_id",
        "Pass the config that put() returned.",
      );
    }
    for (const [name, value] of [["task_id", taskId], ["task_path", taskPath]]) {
      if (typeof value !== "string") throw invalid(`Failed to put writes. Their ${name} is not a string`, name!, "");
    }
    if (writes.length === 0) return;
    const planned = planWrites(this.serde, checkpointId, writes, taskId, taskPath);
    const thread = parseThreadId(this.#reader(threadId, namespace).writes.id);
    await this.#turns.take(threadId, planned, (ready) => {
      return { result: appendWrites(coreOf(this.log), thread, ready) };
    });
  }

  /**
   * What delta channels are made of: for each, the last value kept by an ancestor of the checkpoint, and what has been
   * written to it since, oldest first.
   */
  override async getDeltaChannelHistory(
    options: { config: RunnableConfig; channels: string[] },
  ): Promise<Record<string, DeltaChannelHistory>> {
    const { threadId, namespace = "", checkpointId } = addressOf(options.config);
    if (options.channels.length === 0) return {};
    const reader = threadId === undefined ? undefined : this.#reader(threadId, namespace);
    const entry = await reader?.entry(checkpointId);
    if (reader === undefined || entry === undefined) {
      return Object.fromEntries(options.channels.map((channel) => [channel, { writes: [] }]));
    }
    return await deltaHistory(reader, this.serde, entry, options.channels);
  }

  /** The thread of the log that holds the values of a config's channels, by channel: to diff, blame or subscribe to. */
  channels(config: RunnableConfig): Thread<Record<string, Stored>> {
    const { threadId, namespace } = writeAddressOf(config, "a thread");
    return this.#reader(threadId, namespace).channels;
  }

  /** The checkpoint that last changed a channel, seen from the checkpoint that the config names (or the newest). */
  async blame(config: RunnableConfig, channel: string): Promise<RunnableConfig | undefined> {
    const { threadId, namespace = "", checkpointId } = addressOf(config);
    if (threadId === undefined) return undefined;
    const reader = this.#reader(threadId, namespace);
    const start = await reader.entry(checkpointId);
    if (start === undefined) return undefined;
    for await (const entry of lineOf(reader, start)) {
      const found = entry.value.channels.find(([name]) => name === channel);
      if (found?.[3]) return configOf(threadId, namespace, entry.key);
    }
    return undefined;
  }

  /**
   * Copies a thread, all its namespaces, under a new id, at once or not at all. The copy shares the history: it takes as
   * long for a thread of a million checkpoints as for one. An id that has been used before is refused, even if its
   * thread was deleted.
   */
  async copyThread(sourceId: string, targetId: string): Promise<void> {
    writeAddressOf({ configurable: { thread_id: sourceId } }, "a thread");
    writeAddressOf({ configurable: { thread_id: targetId } }, "a thread");
    // What was put before is to be in it.
    await this.#turns.take(sourceId, undefined, () => ({ result: this.log.flush() }));
    const core = coreOf(this.log);
    const prefix = [...this.#prefix, "checkpoints", sourceId];
    const forks: EventInput[] = [];
    for await (const { thread, version } of this.log.threads({ prefix })) {
      const target = [...this.#prefix, "checkpoints", targetId, ...thread.slice(prefix.length)];
      forks.push(forkInput(core, parseThreadId(target), { path: parseThreadId(thread), version }));
    }
    if (forks.length > 0) await core.commit(forks, forks.map(({ path }) => ({ path, version: 0 })));
  }

  /**
   * Takes old checkpoints away, with their writes: all but the newest `keepLast` of each namespace, or those put before
   * a time. What a delta channel of a kept checkpoint is made of stays. Resolves with how many went.
   */
  async prune(threadId: string, options: PruneOptions): Promise<number> {
    const stays = stayingOf(options);
    let count = 0;
    for (const reader of await this.#namespaces(threadId)) count += await prune(this.log, reader, stays);
    return count;
  }

  /** Takes away the checkpoints of runs, found by `run_id` in their metadata. Resolves with how many went. */
  async deleteForRuns(runIds: readonly string[]): Promise<number> {
    const runs = new Set(runIds);
    let count = 0;
    for (const reader of await this.#namespaces(undefined)) {
      count += await prune(this.log, reader, async (entry) => {
        const { run_id } = await reader.metadata(entry) as { run_id?: unknown };
        return typeof run_id !== "string" || !runs.has(run_id);
      });
    }
    return count;
  }

  async #namespaces(threadId: string | undefined): Promise<CheckpointReader[]> {
    if (threadId !== undefined) writeAddressOf({ configurable: { thread_id: threadId } }, "a thread");
    const under = threadId === undefined ? ["checkpoints"] : ["checkpoints", threadId];
    const readers: CheckpointReader[] = [];
    for await (const { thread } of this.log.threads({ prefix: [...this.#prefix, ...under] })) {
      if (thread.length !== this.#prefix.length + 3) continue;
      readers.push(this.#reader(...thread.slice(-2) as [string, string]));
    }
    return readers;
  }

  /** Erases a thread: its checkpoints and writes of all namespaces leave the file. */
  async deleteThread(threadId: string): Promise<void> {
    writeAddressOf({ configurable: { thread_id: threadId } }, "a thread");
    await this.#turns.take(threadId, undefined, () => {
      this.#recent.clear();
      for (const [name, reader] of this.#readers) if (reader.threadId === threadId) this.#readers.delete(name);
      return { result: this.log.erase([...this.#prefix, "checkpoints", threadId], { scrub: false }) };
    });
  }

  #reader(threadId: string, namespace: string): CheckpointReader {
    const name = `${threadId.length} ${threadId} ${namespace}`;
    let reader = this.#readers.get(name);
    if (reader !== undefined) return reader;
    reader = new CheckpointReader(this.log, this, this.#recent, this.#prefix, threadId, namespace);
    // Dropping one that has something under way would lose sight of it.
    if (this.#readers.size >= MAX_READERS) {
      for (const [name, { underway }] of this.#readers) if (underway.size === 0) this.#readers.delete(name);
    }
    this.#readers.set(name, reader);
    return reader;
  }
}
