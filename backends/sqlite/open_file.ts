/**
 * From a path to a connection: what is created, what is refused, and what every connection is told.
 *
 * @module
 */

import type { EmbeddedOptions } from "../embedded/embedded_backend.ts";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { ThreadlogError } from "../../log/errors.ts";
import { connect, type Connection, defaultDriver, type DriverName, resultCode, Sqlite } from "./driver.ts";
import type { FilesystemProbe } from "./filesystem.ts";
import { PAGE_BYTES } from "./page_images.ts";
import { createSchema, inspect } from "./schema.ts";

/** How a file is opened. */
export interface SqliteOptions extends EmbeddedOptions {
  /** "full" survives power loss; "normal" survives the death of the process. */
  readonly durability: "full" | "normal";
  readonly readOnly: boolean;
  /** How long to wait for another process's transaction. */
  readonly busyTimeoutMs: number;
  readonly allowNetworkFilesystem: boolean;
  /** The SQLite to use; the runtime's own by default. */
  readonly driver?: DriverName | undefined;
  /** For tests: what to believe of the file system. */
  readonly probe?: FilesystemProbe | undefined;
  /** For tests: what is otherwise measured or fixed. */
  readonly tuning?: SqliteTuning | undefined;
}

/** Makes a rare moment common, so that tests meet it. */
export interface SqliteTuning {
  /** On which thread the WAL is synced; by default, as the disk is measured to be. */
  readonly syncMode?: "inline" | "async";
  /** How many written pages make a checkpoint due. */
  readonly duePages?: number;
}

/** SQLite blocks the event loop while it waits for a lock; beyond this the wait is a timer's. */
const BLOCKING_WAIT_MS = 2;

/** Opens a file to write, and creates the log where there is none. */
export async function connectWritable(path: string, options: SqliteOptions): Promise<Connection> {
  for (const deadline = performance.now() + options.busyTimeoutMs;;) {
    const connection = connect(options.driver ?? defaultDriver(), path, { readOnly: false });
    try {
      connection.exec(`PRAGMA busy_timeout = ${BLOCKING_WAIT_MS}`);
      // Looked at first, so that a file of somebody else's is left as it is.
      const found = look(connection, path);
      if (found === "empty") connection.exec(`PRAGMA page_size = ${PAGE_BYTES}`);
      connection.exec("PRAGMA journal_mode = WAL");
      if (found === "empty") create(connection, path, options.codecId);
      configure(connection);
      return connection;
    } catch (error) {
      connection.close();
      if (!isBusy(error) || performance.now() > deadline) throw error;
    }
    await sleep(backoff());
  }
}

/** Inspects in one transaction: another process may be creating the log at this moment. */
function look(connection: Connection, path: string): "empty" | "log" {
  connection.exec("BEGIN");
  try {
    return inspect(connection, path);
  } finally {
    connection.exec("COMMIT");
  }
}

function create(connection: Connection, path: string, codecId: string): void {
  // FULL, so that the new file and its WAL have durable names before anything is acknowledged.
  connection.exec("PRAGMA synchronous = FULL");
  connection.exec("BEGIN IMMEDIATE");
  try {
    // Another process may have been quicker.
    if (inspect(connection, path) === "empty") createSchema(connection, codecId);
    connection.exec("COMMIT");
  } catch (error) {
    try {
      connection.exec("ROLLBACK");
    } catch {
      // SQLite has rolled back by itself.
    }
    throw error;
  }
}

function configure(connection: Connection): void {
  connection.exec("PRAGMA synchronous = NORMAL"); // wal_sync.ts does the rest
  connection.exec("PRAGMA wal_autocheckpoint = 0"); // checkpointer.ts does it
  connection.exec("PRAGMA journal_size_limit = 8388608");
  connection.exec("PRAGMA secure_delete = ON"); // what is erased is overwritten
  connection.exec("PRAGMA trusted_schema = OFF");
}

/** A file that may not be written can't be read in WAL mode, unless it is declared not to change. */
export function connectReadOnly(path: string, options: SqliteOptions): Connection {
  let connection: Connection | undefined;
  try {
    connection = connect(options.driver ?? defaultDriver(), path, { readOnly: true });
    connection.exec(`PRAGMA busy_timeout = ${BLOCKING_WAIT_MS}`);
    if (look(connection, path) === "empty") throw emptyFile(path);
    return connection;
  } catch (error) {
    connection?.close();
    const code = (resultCode(error) ?? 0) & 0xff;
    // With frames in a WAL, the database alone would be an older state: then the error stands.
    if ((code !== Sqlite.cantopen && code !== Sqlite.readonly) || existsSync(`${path}-wal`)) throw error;
  }
  const url = new URL(`file:${encodeURI(path).replaceAll("?", "%3F").replaceAll("#", "%23")}?immutable=1`);
  const immutable = connect("node:sqlite", url.href, { readOnly: true });
  if (inspect(immutable, path) === "empty") throw emptyFile(path);
  return immutable;
}

function emptyFile(path: string): ThreadlogError {
  return new ThreadlogError("not_a_log", "The file is empty", {
    place: path,
    remedy: "Open it writable once to make it a log.",
  });
}

/** Whether another process was in the way. */
export function isBusy(error: unknown): boolean {
  const code = (resultCode(error) ?? 0) & 0xff;
  return code === Sqlite.busy || code === Sqlite.locked;
}

/** Milliseconds to wait before trying again: random, so that waiting processes don't march in step. */
export function backoff(): number {
  return 1 + Math.random() * 4;
}
