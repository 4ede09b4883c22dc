/**
 * What many tests need: a folder of their own, a raw connection, a forced garbage collection, an error to look at.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setImmediate } from "node:timers";
import { it } from "node:test";
import { type ErrorCode, type Log, openLog, type OpenOptions, ThreadlogError } from "../../mod.ts";
import { connect, type Connection, defaultDriver } from "../../backends/sqlite/driver.ts";
import { dropSchemas, isChosen, postgresUrl } from "./backends.ts";

/** A test body that is given an empty folder, which is removed after it. */
export function inFolder(body: (folder: string) => Promise<void> | void): () => Promise<void> {
  return async () => {
    const folder = mkdtempSync(join(tmpdir(), "threadlog-test-"));
    try {
      await body(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
      await dropSchemas(folder);
    }
  };
}

/** A test body that is given an open log in a file of its own, and the file's path. */
export function onFile(
  body: (log: Log, path: string) => Promise<void> | void,
  options: OpenOptions = { durability: "normal" },
): () => Promise<void> {
  return inFolder(async (folder) => {
    const path = join(folder, "test.db");
    await using log = await openLog(path, options);
    await body(log, path);
  });
}

let schemas = 0;

/** A test that runs on an open log in memory, on one in a file, and, where there is one, on a server. */
export function onEach(name: string, body: (log: Log) => Promise<void>, options: OpenOptions = {}): void {
  const opened = { durability: "normal", ...options } as const;
  if (isChosen("memory")) {
    it(`${name} (memory)`, async () => {
      await using log = await openLog(":memory:", opened);
      await body(log);
    });
  }
  if (isChosen("sqlite")) it(`${name} (sqlite)`, onFile(body, opened));
  const url = postgresUrl;
  if (url === undefined || !isChosen("postgres")) return;
  it(`${name} (postgres)`, async () => {
    const { emptySchema } = await import("./postgres_log.ts");
    // One that was used before remembers its codec.
    const schema = options.codec === undefined ? await emptySchema() : `codec_${process.pid}_${++schemas}`;
    await using log = await openLog(url, { ...opened, schema });
    await body(log);
  });
}

/** Resolves in the next turn of the event loop: what another connection has changed is seen from then on. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Resolves after a while. */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Resolves when something holds; fails if it does not within a time. */
export async function until(holds: () => boolean | Promise<boolean>, limitMs = 10_000): Promise<void> {
  for (const end = performance.now() + limitMs; !await holds();) {
    assert.ok(performance.now() < end, "it did not come to hold in time");
    await sleep(5);
  }
}

/** A connection behind the library's back. */
export function rawConnection(path: string): Connection {
  return connect(defaultDriver(), path, { readOnly: false });
}

/** Runs statements behind the library's back. */
export function rawSql(path: string, ...statements: string[]): void {
  const connection = rawConnection(path);
  try {
    for (const sql of statements) connection.exec(sql);
  } finally {
    connection.close();
  }
}

/** Forces a garbage collection where that can be done. */
export const collect: () => void = await findCollector();

async function findCollector(): Promise<() => void> {
  const { Bun } = globalThis as { Bun?: { gc(force: boolean): void } };
  if (Bun !== undefined) return () => Bun.gc(true);
  try {
    const { setFlagsFromString } = await import("node:v8");
    const { runInNewContext } = await import("node:vm");
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as unknown;
    if (typeof gc === "function") return () => void gc();
  } catch {
    // Then the collector comes when it likes.
  }
  return () => {};
}

/** Resident memory after a collection, in MiB. */
export function residentMib(): number {
  collect();
  return process.memoryUsage().rss / (1 << 20);
}

/** Runs what must be refused; gives the error, having checked its code and that it names the remedy. */
export async function refused(code: ErrorCode | undefined, action: () => unknown): Promise<ThreadlogError> {
  let result: unknown;
  try {
    result = await action();
  } catch (error) {
    assert.ok(error instanceof ThreadlogError, `not a ThreadlogError: ${String((error as Error)?.stack ?? error)}`);
    if (code !== undefined) assert.equal(error.code, code, error.message);
    assert.ok(error.remedy !== undefined && error.remedy !== "", `no remedy: ${error.message}`);
    return error;
  }
  assert.fail(`expected ${code ?? "an error"}, got ${String(result)}`);
}

/** All that an async iterable yields. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

/** Random numbers in [0, 1) that are the same in each run. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
