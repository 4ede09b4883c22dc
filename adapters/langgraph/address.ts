/**
 * Which checkpoint a `RunnableConfig` names, and where it lies in the log.
 *
 * @module
 */

import type { RunnableConfig } from "@langchain/core/runnables";
import { invalid } from "../../log/errors.ts";
import { parseThreadId } from "../../log/ids.ts";

/** What a config says. */
export interface Address {
  readonly threadId: string | undefined;
  readonly namespace: string | undefined;
  readonly checkpointId: string | undefined;
}

/** Reads a config. Ids that are not strings are refused. */
export function addressOf(config: RunnableConfig): Address {
  const { thread_id, checkpoint_ns, checkpoint_id, thread_ts } = config.configurable ?? {};
  // Older configs name the checkpoint in `thread_ts`.
  const id: unknown = checkpoint_id || thread_ts;
  return {
    threadId: checkName(thread_id, "thread_id"),
    namespace: checkName(checkpoint_ns, "checkpoint_ns"),
    checkpointId: id === "" ? undefined : checkName(id, "checkpoint_id"),
  };
}

function checkName(name: unknown, field: string): string | undefined {
  if (name === undefined) return undefined;
  if (typeof name !== "string") {
    const got = name === null ? "null" : Array.isArray(name) ? "array" : typeof name;
    throw invalid(
      `Invalid configurable value for key "${field}": expected a string identifier (got ${got})`,
      `configurable.${field}`,
      "Pass a string; nothing was written.",
    );
  }
  if (name === "" && field !== "checkpoint_ns") {
    throw invalid(
      `Invalid configurable value for key "${field}": empty string is not permitted`,
      `configurable.${field}`,
      "Pass a string that names it; nothing was written.",
    );
  }
  return name;
}

/** Reads the config of a write, which must name a thread. */
export function writeAddressOf(
  config: RunnableConfig,
  what: string,
): Address & { threadId: string; namespace: string } {
  const { threadId, namespace = "", checkpointId } = addressOf(config ?? {});
  if (threadId === undefined) {
    throw invalid(
      `Failed to put ${what}. The passed RunnableConfig is missing a required "thread_id" field in its ` +
        `"configurable" property`,
      "configurable.thread_id",
      'Example: graph.stream(input, { configurable: { thread_id: "my-thread-id" } }).',
    );
  }
  return { threadId, namespace, checkpointId };
}

/** Names a checkpoint. */
export function configOf(threadId: string, namespace: string, checkpointId: string): RunnableConfig {
  return { configurable: { thread_id: threadId, checkpoint_ns: namespace, checkpoint_id: checkpointId } };
}

/** Labels that come before all others. */
export type Prefix = readonly string[];

/** The thread of a namespace: an entry for each checkpoint, its key the checkpoint's id. */
export function checkpointsPath(prefix: Prefix, threadId: string, namespace: string): string[] {
  return [...prefix, "checkpoints", threadId, namespace];
}

/** The threads below it: values of channels, and pending writes. */
export function below(path: readonly string[], kind: "channels" | "writes"): string[] {
  return [...path, kind];
}

/** Labels joined into one key: keys of equal first labels stand together, in code point order of the rest. */
export function keyOf(...labels: readonly string[]): string {
  return parseThreadId(labels);
}
