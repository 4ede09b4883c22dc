/** What the tests of the LangGraph adapter share: files, checkpoints made by hand, and short ways to read them. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunnableConfig } from "@langchain/core/runnables";
import type {
  BaseCheckpointSaver,
  Checkpoint,
  CheckpointMetadata,
  CheckpointTuple,
} from "@langchain/langgraph-checkpoint";
import { type SaverOptions, ThreadlogSaver } from "../../../adapters/langgraph/mod.ts";
import type { OpenOptions } from "../../../mod.ts";

/** Runs a test with the path of a new file, and removes it. */
export async function withFile(run: (path: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "threadlog-langgraph-"));
  try {
    await run(join(folder, "agent.db"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs a test with a saver over a new file, and a way to close the file and open it again. */
export async function withSaver(
  run: (saver: ThreadlogSaver, reopen: () => Promise<ThreadlogSaver>, path: string) => Promise<void>,
  options: SaverOptions & OpenOptions = {},
): Promise<void> {
  await withFile(async (path) => {
    let saver = await ThreadlogSaver.open(path, options);
    const reopen = async () => {
      await saver.close();
      return saver = await ThreadlogSaver.open(path, options);
    };
    try {
      await run(saver, reopen, path);
    } finally {
      await saver.close();
    }
  });
}

/** A config of a thread. */
export function at(thread_id: string, checkpoint_id?: string, checkpoint_ns = ""): RunnableConfig {
  return { configurable: { thread_id, checkpoint_ns, ...(checkpoint_id === undefined ? {} : { checkpoint_id }) } };
}

export const LOOP: CheckpointMetadata = { source: "loop", step: 1, parents: {} };

/** A checkpoint with these values, each of them at a version. */
export function checkpoint(
  id: string,
  channel_values: Record<string, unknown>,
  channel_versions: Record<string, number | string> = Object.fromEntries(
    Object.keys(channel_values).map((name) => [name, 1]),
  ),
): Checkpoint {
  return { v: 4, id, ts: "2026-08-01T00:00:00.000Z", channel_values, channel_versions, versions_seen: {} };
}

/** Puts a checkpoint whose every channel is new. */
export async function put(
  saver: BaseCheckpointSaver,
  parent: RunnableConfig,
  id: string,
  values: Record<string, unknown>,
  versions?: Record<string, number | string>,
  metadata: CheckpointMetadata = LOOP,
): Promise<RunnableConfig> {
  const made = checkpoint(id, values, versions);
  return await saver.put(parent, made, metadata, made.channel_versions);
}

/** The ids of a listing, in its order. */
export async function idsOf(tuples: AsyncIterable<CheckpointTuple>): Promise<string[]> {
  const ids: string[] = [];
  for await (const tuple of tuples) ids.push(tuple.checkpoint.id);
  return ids;
}

/** The values of a checkpoint's channels. */
export async function valuesOf(
  saver: BaseCheckpointSaver,
  config: RunnableConfig,
): Promise<Record<string, unknown> | undefined> {
  return (await saver.getTuple(config))?.checkpoint.channel_values;
}
