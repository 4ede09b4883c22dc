/**
 * Copying a database that is being written to.
 *
 * @module
 */

import { randomBytes } from "node:crypto";
import { existsSync, lstatSync } from "node:fs";
import { link, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import process from "node:process";
import { invalid, ThreadlogError } from "../../log/errors.ts";
import { type DriverName, storageError } from "./driver.ts";
import { pathProblem, realPath } from "./filesystem.ts";
import { SideWorker } from "./side_worker.ts";

type NodeSqlite = typeof import("node:sqlite");

/** What SQLite keeps beside a database. */
const COMPANION = /-(?:journal|wal|shm)$/;
/** How much of the target's name the unfinished copy shows: with what is added it must stay a name. */
const SHOWN = 50;

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
  const name = `${basename(target).slice(0, SHOWN)}.partial-${process.pid}-${randomBytes(8).toString("hex")}`;
  const partial = join(dirname(target), name);
  try {
    refuseTarget(source, target);
    await copy(source, partial, worker);
    await check(partial, target, driver);
    await sync(partial);
    await publish(partial, target);
    await sync(dirname(target));
  } catch (error) {
    // What keeps it from being removed must not hide what went wrong.
    for (const suffix of ["", "-wal", "-shm", "-journal"]) await rm(partial + suffix, { force: true }).catch(() => {});
    throw storageError(error, "backing it up", target);
  }
}

function refuseTarget(source: string, target: string): void {
  const problem = pathProblem(target);
  if (problem !== undefined) throw new ThreadlogError("storage", problem.what, { place: target, ...problem });
  const real = realPath(target);
  for (const path of [target, real]) {
    const database = path.replace(COMPANION, "");
    if (database === path || (database !== realPath(source) && !existsSync(database))) continue;
    throw invalid(
      `The backup would take a name that SQLite uses beside ${database}`,
      target,
      "Name it otherwise: a database that finds such a file applies it, or deletes it.",
    );
  }
  if (lstatSync(target, { throwIfNoEntry: false }) !== undefined) throw existsAlready(target);
}

function existsAlready(target: string, cause?: unknown): ThreadlogError {
  return invalid(
    "The backup's file exists already",
    target,
    "Name a file that does not exist: a backup never overwrites anything.",
    cause,
  );
}

/** Gives the copy its name, unless something has come to have it: of several backups to one name, one wins. */
export async function publish(partial: string, target: string, linking = link): Promise<void> {
  try {
    await linking(partial, target);
  } catch (error) {
    if (codeOf(error) === "EEXIST") throw existsAlready(target, error);
    return await claim(partial, target);
  }
  // The backup is there; that it has a second name would be no reason to fail it.
  await rm(partial, { force: true }).catch(() => {});
}

/** The same where the file system, or the runtime's permissions, know no links. */
async function claim(partial: string, target: string): Promise<void> {
  try {
    // Nothing is overwritten by the rename but the empty file that only one can have made.
    await (await open(target, "wx")).close();
  } catch (error) {
    throw codeOf(error) === "EEXIST" ? existsAlready(target, error) : error;
  }
  try {
    await rename(partial, target);
  } catch (error) {
    await rm(target, { force: true }).catch(() => {});
    throw error;
  }
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | undefined)?.code;
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
