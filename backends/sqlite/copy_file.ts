/**
 * Copying a database that is being written to.
 *
 * @module
 */

import { existsSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import process from "node:process";
import { ThreadlogError } from "../../log/errors.ts";
import { type DriverName, storageError } from "./driver.ts";
import { SideWorker } from "./side_worker.ts";

type NodeSqlite = typeof import("node:sqlite");

/**
 * Copies a database as it stands to a new file, off the event loop. The file appears under its name only when it is
 * complete, checked and durable.
 */
export async function copyDatabase(
  source: string,
  target: string,
  worker: SideWorker,
  driver: DriverName,
): Promise<void> {
  if (existsSync(target)) {
    throw new ThreadlogError("invalid_argument", "The backup's file exists already", {
      place: target,
      remedy: "Name a file that does not exist: a backup never overwrites anything.",
    });
  }
  const partial = `${target}.partial-${process.pid}-${Date.now()}`;
  try {
    await copy(source, partial, worker);
    await check(partial, target, driver);
    await sync(partial);
    await rename(partial, target);
    await sync(dirname(target));
  } catch (error) {
    for (const suffix of ["", "-wal", "-shm", "-journal"]) await rm(partial + suffix, { force: true });
    throw storageError(error, "backing it up", target);
  }
}

async function copy(source: string, partial: string, worker: SideWorker): Promise<void> {
  const sqlite = process.getBuiltinModule("node:sqlite") as NodeSqlite | undefined;
  if (sqlite?.backup === undefined) {
    // Node < 22.16. (Deno refuses this statement unless everything is allowed.)
    await worker.run("VACUUM INTO ?", partial);
    return;
  }
  const database = new sqlite.DatabaseSync(source, { readOnly: true });
  try {
    // All pages in one step, so in one read transaction: in smaller steps each append would start it anew.
    await sqlite.backup(database, partial, { rate: 0x7fffffff });
  } finally {
    database.close();
  }
}

async function check(partial: string, target: string, driver: DriverName): Promise<void> {
  const worker = new SideWorker({ driver, path: partial, readOnly: false });
  try {
    // A copy is one file, and can be read where nothing may be written; opening it as a log turns this back.
    await worker.run("PRAGMA journal_mode = DELETE");
    const [row] = await worker.run("PRAGMA integrity_check(1)");
    if (row?.integrity_check === "ok") return;
  } finally {
    await worker.close();
  }
  throw new ThreadlogError("corrupt", "The copy did not pass SQLite's integrity check", {
    place: target,
    remedy: "The log itself may be damaged: run verify().",
  });
}

async function sync(path: string): Promise<void> {
  const file = await open(path, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
