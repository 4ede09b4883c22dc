/**
 * Folders for the files of a run, gone at its end.
 *
 * @module
 */

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

/** Runs with a new folder. `THREADLOG_BENCH_DIR` says on which file system; by default the one of temporary files. */
export async function withFolder<T>(run: (path: (name: string) => string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(process.env.THREADLOG_BENCH_DIR ?? tmpdir(), "threadlog-bench-"));
  try {
    return await run((name) => join(folder, name));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The bytes of a database with what lies beside it. */
export function databaseBytes(path: string): number {
  let bytes = 0;
  for (const suffix of ["", "-wal", "-shm"]) bytes += statSync(path + suffix, { throwIfNoEntry: false })?.size ?? 0;
  return bytes;
}
