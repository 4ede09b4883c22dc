/**
 * LangGraph.js over a log: its checkpointer, its long-term memory and its cache, each in place of LangGraph's own.
 *
 * Needs `@langchain/langgraph-checkpoint` and `@langchain/core`, which come with LangGraph.
 *
 * @example
 * ```ts
 * import { openLog } from "threadlog";
 * import { ThreadlogCache, ThreadlogSaver, ThreadlogStore } from "threadlog/langgraph";
 *
 * await using log = await openLog(":memory:"); // or "agent.db"
 * const checkpointer = new ThreadlogSaver(log);
 * const store = new ThreadlogStore(log);
 * const cache = new ThreadlogCache(log);
 * // const graph = builder.compile({ checkpointer, store, cache });
 * ```
 *
 * @module
 */

export { ThreadlogSaver } from "./saver.ts";
export type { SaverOptions } from "./saver.ts";
export type { PruneOptions } from "./retention.ts";
export { copyCheckpoints } from "./copy_checkpoints.ts";
export type { CopyOptions, CopyProgress, CopyReport } from "./copy_checkpoints.ts";
export { ThreadlogStore } from "./store.ts";
export type { StoreOptions, TtlOptions } from "./store.ts";
export { ThreadlogCache } from "./cache.ts";
export type { CacheKey, CacheOptions } from "./cache.ts";
export type { Place, StoredChannel, StoredCheckpoint } from "./checkpoint_entry.ts";
export type { CheckpointsState } from "./checkpoint_reader.ts";
export type { Serde, Stored } from "./value_codec.ts";
