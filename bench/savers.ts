/**
 * The checkpointers that are compared, and one way to drive them.
 *
 * @module
 */

import { type BaseCheckpointSaver, MemorySaver } from "@langchain/langgraph-checkpoint";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { ThreadlogSaver } from "../adapters/langgraph/mod.ts";
import { checkpoint, idOf, METADATA } from "./payloads.ts";

/** A checkpointer with its name. */
export interface Contender {
  readonly name: string;
  readonly saver: BaseCheckpointSaver;
  readonly close: () => Promise<void> | void;
}

/** Threadlog's, over a file or in memory. */
export async function threadlog(path: string, durability: "full" | "normal" = "normal"): Promise<Contender> {
  const saver = await ThreadlogSaver.open(path, { durability });
  return { name: "Threadlog", saver, close: () => saver.close() };
}

/** LangGraph's reference, in memory. */
export function memory(): Contender {
  return { name: "MemorySaver", saver: new MemorySaver(), close: () => {} };
}

/** LangGraph's on SQLite, where it is installed and can be loaded: better-sqlite3 is for Node alone. */
export async function sqlite(path: string, synchronous: "FULL" | "NORMAL" = "NORMAL"): Promise<Contender | undefined> {
  const folder = process.env.THREADLOG_BENCH_PEERS;
  if (folder === undefined || !existsSync(folder) || "Bun" in globalThis || "Deno" in globalThis) return undefined;
  const require = createRequire(join(folder, "package.json"));
  const entry = join(folder, "node_modules/@langchain/langgraph-checkpoint-sqlite/dist/index.js");
  const { SqliteSaver } = await import(pathToFileURL(entry).href);
  const database = new (require("better-sqlite3"))(path);
  const saver = new SqliteSaver(database);
  await saver.getTuple({ configurable: { thread_id: "nobody" } }); // sets it up
  database.pragma(`synchronous = ${synchronous}`);
  return { name: "SqliteSaver", saver, close: () => database.close() };
}

/** One thread that gets checkpoint after checkpoint. */
export class Run {
  readonly #saver: BaseCheckpointSaver;
  readonly thread: string;
  count: number;

  /** `count` checkpoints have been put before. */
  constructor({ saver }: Contender, thread = "t", count = 0) {
    this.#saver = saver;
    this.thread = thread;
    this.count = count;
  }

  get #parent() {
    const checkpoint_id = this.count === 0 ? undefined : idOf(this.count - 1);
    return { configurable: { thread_id: this.thread, checkpoint_ns: "", checkpoint_id } };
  }

  /** The id of the newest. */
  get newest(): string {
    return idOf(this.count - 1);
  }

  /** Puts the next checkpoint, every channel of it at a version. */
  put(channels: Record<string, unknown>, version = 1, changed = Object.keys(channels)): Promise<unknown> {
    const next = checkpoint(this.count, channels, version);
    const config = this.#parent;
    this.count++;
    const declared = Object.fromEntries(changed.map((name) => [name, version]));
    return this.#saver.put(config, next, METADATA, declared);
  }

  /** The newest checkpoint. */
  async latest(): Promise<void> {
    const tuple = await this.#saver.getTuple({ configurable: { thread_id: this.thread } });
    if (tuple?.checkpoint.id !== idOf(this.count - 1)) throw new Error("not the newest checkpoint");
  }

  /** One of its checkpoints, by its place. */
  async at(index: number): Promise<void> {
    const checkpoint_id = idOf(index);
    const tuple = await this.#saver.getTuple({ configurable: { thread_id: this.thread, checkpoint_id } });
    if (tuple?.checkpoint.id !== checkpoint_id) throw new Error(`not checkpoint ${index}`);
  }

  /** The newest ten. */
  async list(): Promise<void> {
    let count = 0;
    for await (const _ of this.#saver.list({ configurable: { thread_id: this.thread } }, { limit: 10 })) count++;
    if (count !== 10) throw new Error(`${count} checkpoints listed`);
  }

  /** Two writes of a task, of the newest checkpoint. */
  putWrites(index: number, task = `task-${index}`): Promise<void> {
    const message = { role: "assistant", content: "a pending write ".repeat(8) };
    return this.#saver.putWrites(this.#parent, [["messages", message], ["step", index]], task);
  }
}
