/**
 * One face for bun:sqlite and node:sqlite, loaded only when a file is opened.
 *
 * @module
 */

import process from "node:process";
import { ThreadlogError } from "../../log/errors.ts";
import { pathProblem } from "./filesystem.ts";

/** What is bound to a statement and what comes back. */
export type SqlValue = string | number | Uint8Array | null;

/** A row, by column name. */
export type Row = Readonly<Record<string, SqlValue>>;

/** A prepared statement. Every call runs it to its end, so that none stays active and holds a lock. */
export interface Statement {
  run(...values: SqlValue[]): void;
  get(...values: SqlValue[]): Row | undefined;
  all(...values: SqlValue[]): Row[];
}

/** A connection. */
export interface Connection {
  readonly driver: DriverName;
  /** What was opened, and how: for a second connection of the same kind. */
  readonly path: string;
  readonly readOnly: boolean;
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

/** The drivers, by the names of their modules. */
export type DriverName = "bun:sqlite" | "node:sqlite";

interface NativeStatement {
  run(...values: SqlValue[]): unknown;
  get(...values: SqlValue[]): Row | null | undefined;
  all(...values: SqlValue[]): Row[];
  finalize?(): void;
}

interface NativeDatabase {
  exec(sql: string): void;
  prepare(sql: string): NativeStatement;
  close(throwOnError?: boolean): void;
}

type NativeModule = {
  readonly Database: new (path: string, options: { readonly?: boolean; create?: boolean }) => NativeDatabase;
  readonly DatabaseSync: new (path: string, options: { readOnly?: boolean }) => NativeDatabase;
};

/** The driver that is native to this runtime. */
export function defaultDriver(): DriverName {
  return "Bun" in globalThis ? "bun:sqlite" : "node:sqlite";
}

/** Opens a database file; creates it where it may. */
export function connect(driver: DriverName, path: string, options: { readonly readOnly: boolean }): Connection {
  const module = withoutWarning(() => process.getBuiltinModule(driver) as unknown as NativeModule | undefined);
  if (module === undefined) {
    throw new ThreadlogError("unsupported", `This runtime has no ${driver}`, {
      remedy: "Use Bun, Deno >= 2.2 or Node >= 22.13.",
    });
  }
  const database = driver === "bun:sqlite"
    ? new module.Database(path, options.readOnly ? { readonly: true } : { create: true })
    : new module.DatabaseSync(path, { readOnly: options.readOnly });
  return new NativeConnection(driver, path, options.readOnly, database);
}

/** Node 22 and 24 announce node:sqlite as experimental on stderr, which is no business of the app's users. */
function withoutWarning<T>(load: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return load();
  } finally {
    process.emitWarning = emitWarning;
  }
}

class NativeConnection implements Connection {
  readonly driver: DriverName;
  readonly path: string;
  readonly readOnly: boolean;
  readonly #database: NativeDatabase;
  // Bun closes what is not referenced, and an unfinalized statement keeps the file open.
  readonly #statements: NativeStatement[] = [];

  constructor(driver: DriverName, path: string, readOnly: boolean, database: NativeDatabase) {
    this.driver = driver;
    this.path = path;
    this.readOnly = readOnly;
    this.#database = database;
  }

  exec(sql: string): void {
    this.#database.exec(sql);
  }

  prepare(sql: string): Statement {
    const native = this.#database.prepare(sql);
    this.#statements.push(native);
    return {
      run: (...values) => void native.run(...values),
      get: (...values) => native.get(...values) ?? undefined,
      all: (...values) => native.all(...values),
    };
  }

  close(): void {
    for (const statement of this.#statements.splice(0)) statement.finalize?.();
    this.#database.close();
  }
}

/** What went wrong in SQLite, the same for every driver: its result code, extended where the driver tells. */
export function resultCode(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined;
  const { errno, errcode, code } = error as { errno?: unknown; errcode?: unknown; code?: unknown };
  // node:sqlite's refusal of an integer beyond 2^53: nothing that the library wrote.
  if (code === "ERR_OUT_OF_RANGE") return Sqlite.corrupt;
  // The library's own statements ask for nothing that its files lack.
  if (/no such (table|column)/.test(error.message)) return Sqlite.corrupt;
  if (typeof errcode === "number") return errcode;
  if (typeof errno === "number" && errno > 0) return errno;
  // Deno's exec() gives the text alone.
  const text = MESSAGES.find(([pattern]) => pattern.test(error.message));
  return text?.[1];
}

/**
 * Whether a sync failed, or may have, where the driver tells no more than that some I/O did. The kernel may have dropped
 * what was to be written: a later sync would succeed without it.
 */
export function isSyncFailure(error: unknown): boolean {
  const code = resultCode(error);
  return code !== undefined && SYNC_FAILURES.includes(code);
}

/** SQLite's primary result codes that the library tells apart. */
export const Sqlite = { busy: 5, locked: 6, readonly: 8, ioerr: 10, corrupt: 11, full: 13, cantopen: 14, notadb: 26 };

const IOERR_FSYNC = Sqlite.ioerr | 4 << 8;
const IOERR_DIR_FSYNC = Sqlite.ioerr | 5 << 8;
const SYNC_FAILURES: readonly number[] = [Sqlite.ioerr, IOERR_FSYNC, IOERR_DIR_FSYNC];

const MESSAGES: readonly (readonly [RegExp, number])[] = [
  [/database is locked/, Sqlite.busy],
  [/table is locked/, Sqlite.locked],
  [/readonly database/, Sqlite.readonly],
  [/disk I\/O error/, Sqlite.ioerr],
  [/malformed/, Sqlite.corrupt],
  [/disk is full/, Sqlite.full],
  [/unable to open/, Sqlite.cantopen],
  [/not a database/, Sqlite.notadb],
];

/** What is left to do about a file that can't be opened any more. */
export const DAMAGED = "Restore it from a backup, or save what can be read of it with salvage().";

/** Turns an error of the engine into the library's. */
export function storageError(error: unknown, doing: string, path: string): unknown {
  if (error instanceof ThreadlogError) return error;
  const code = resultCode(error);
  if (error instanceof Error && error.name === "NotCapable") {
    return new ThreadlogError("storage", "Deno does not let this program use the file", {
      place: path,
      remedy: "Run it with --allow-read and --allow-write for the file's folder.",
      cause: error,
    });
  }
  if (code === undefined && !(error instanceof Error && "code" in error)) return error; // a defect, not the storage
  const details = { place: path, cause: error };
  const problem = doing === "opening it" ? pathProblem(path) : undefined;
  if (problem !== undefined) return new ThreadlogError("storage", problem.what, { ...details, ...problem });
  switch (code === undefined ? undefined : code & 0xff) {
    case Sqlite.busy:
    case Sqlite.locked:
      return new ThreadlogError("busy", `Another process holds the log while ${doing}`, {
        ...details,
        remedy: "Try again, or raise `busyTimeoutMs`; look for a process that is stopped inside a transaction.",
      });
    case Sqlite.readonly:
      return new ThreadlogError("read_only", `The file can't be written while ${doing}`, {
        ...details,
        remedy: "Check its permissions and the mount, or open it with { readOnly: true }.",
      });
    case Sqlite.full:
      return new ThreadlogError("storage", `The disk is full while ${doing}`, {
        ...details,
        remedy: "Free some space and try again; the log stays usable.",
      });
    case Sqlite.corrupt:
      return new ThreadlogError("corrupt", `The file is damaged, noticed while ${doing}`, {
        ...details,
        remedy: doing === "opening it" ? DAMAGED : "Run verify() to see how far, and restore from a backup.",
      });
    case Sqlite.notadb:
      return new ThreadlogError("not_a_log", "The file is not a SQLite database", {
        ...details,
        remedy: "Name a file that Threadlog wrote, or one that does not exist yet.",
      });
    case Sqlite.cantopen:
      return new ThreadlogError("storage", "The file can't be opened", {
        ...details,
        remedy: "Check that its folder exists and that this user may write there, or open it with { readOnly: true }.",
      });
    default:
      return new ThreadlogError("storage", `The storage failed while ${doing}`, {
        ...details,
        remedy: "See the cause; nothing of this call was kept.",
      });
  }
}
