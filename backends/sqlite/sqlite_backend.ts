/**
 * The backend behind `openLog("agent.db")`: one SQLite file in WAL mode, which several processes may share.
 *
 * @module
 */

import { existsSync, statSync } from "node:fs";
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { setImmediate } from "node:timers";
import { setTimeout as sleep } from "node:timers/promises";
import type { BackendStats, LogHead, Piece } from "../../log/backend.ts";
import { OutcomeUnknownError, ThreadlogError } from "../../log/errors.ts";
import { bytesOf, EmbeddedBackend } from "../embedded/embedded_backend.ts";
import { Payloads } from "../embedded/payloads.ts";
import { adoptPiece } from "./adopt.ts";
import { Checkpointer } from "./checkpointer.ts";
import { type Connection, isSyncFailure, resultCode, Sqlite, type Statement, storageError } from "./driver.ts";
import { probeFilesystem, realPath, refuseNetworkFilesystem } from "./filesystem.ts";
import { copyDatabase } from "./copy_file.ts";
import { warnOfOldSqlite } from "./engine_version.ts";
import { backoff, connectReadOnly, connectWritable, isBusy, type SqliteOptions } from "./open_file.ts";
import { readCodecId } from "./schema.ts";
import { SideWorker } from "./side_worker.ts";
import { SqliteStore } from "./sqlite_store.ts";
import { WalSync } from "./wal_sync.ts";

/** Events in a SQLite file. */
export class SqliteBackend extends EmbeddedBackend {
  readonly kind = "sqlite";
  readonly readOnly: boolean;
  readonly codecId: string;
  protected readonly store: SqliteStore;
  protected readonly payloads: Payloads;
  readonly #path: string;
  readonly #options: SqliteOptions;
  readonly #connection: Connection;
  readonly #begin: Statement;
  readonly #beginRead: Statement;
  readonly #commit: Statement;
  readonly #dataVersion: Statement;
  readonly #sync: WalSync;
  readonly #worker: SideWorker;
  readonly #checkpointer: Checkpointer;
  /** SQLite's counter of others' commits: as of the store's memory, and as of the last head that was told. */
  #storeVersion: number;
  #headVersion: number;
  /** Which file the path stood for when it was opened. */
  readonly #inode: number | undefined;
  #lookedThisTurn = false;
  /** Whether this turn's reads have begun. */
  #isReading = false;
  #failure: unknown;
  #closed = false;

  private constructor(connection: Connection, path: string, options: SqliteOptions) {
    super(options.now);
    this.#connection = connection;
    this.#path = path;
    this.#options = options;
    this.readOnly = options.readOnly;
    this.store = new SqliteStore(connection);
    this.payloads = new Payloads(this.store, options.payloadBytes, options.maxValueBytes);
    this.codecId = readCodecId(connection, path);
    this.#begin = connection.prepare("BEGIN IMMEDIATE");
    this.#beginRead = connection.prepare("BEGIN");
    this.#commit = connection.prepare("COMMIT");
    this.#dataVersion = connection.prepare("PRAGMA data_version");
    this.#storeVersion = this.#headVersion = this.#othersVersion();
    this.#inode = statSync(path, { throwIfNoEntry: false })?.ino;
    this.#sync = new WalSync(path, options.tuning?.syncMode);
    this.#worker = new SideWorker(connection);
    this.#checkpointer = new Checkpointer(
      (sql) => {
        this.#endRead();
        connection.exec(sql);
      },
      this.#worker,
      (error) => this.#noteFailure(error),
      options.tuning?.duePages,
    );
  }

  /** Opens or creates a file. Flat in its size. */
  static async open(file: string, options: SqliteOptions): Promise<SqliteBackend> {
    const path = realPath(resolve(file));
    if (!options.allowNetworkFilesystem) await refuseNetworkFilesystem(path, options.probe ?? probeFilesystem);
    if (options.readOnly && !existsSync(path)) {
      throw new ThreadlogError("not_found", "The file does not exist", {
        place: path,
        remedy: "A read-only log is never created; check the path.",
      });
    }
    let connection: Connection | undefined;
    try {
      connection = options.readOnly ? connectReadOnly(path, options) : await connectWritable(path, options);
      const backend = new SqliteBackend(connection, path, options);
      // A process that was killed between its commit and its sync left what nobody was told. From here on it is shown.
      if (!options.readOnly && options.durability === "full") await backend.#sync.sync();
      siblingsOf(path).add(backend);
      warnOfOldSqlite(backend.store.engine);
      return backend;
    } catch (error) {
      connection?.close();
      throw storageError(error, "opening it", path);
    }
  }

  protected async write<T>(work: () => T, bytes: number): Promise<T> {
    this.#refuseReadOnly();
    await this.#checkpointer.turn();
    // From here to the end of the transaction nothing is awaited: several may be writing through this connection.
    for (const deadline = performance.now() + this.#options.busyTimeoutMs; !this.#begins(deadline);) {
      await sleep(backoff());
    }
    let result: T;
    try {
      result = work();
      this.store.index();
    } catch (error) {
      this.#rollback();
      throw storageError(error, "appending", this.#path);
    }
    try {
      this.#commit.run();
    } catch (error) {
      this.#rollback();
      this.#noteFailure(error);
      const full = ((resultCode(error) ?? 0) & 0xff) === Sqlite.full;
      throw full ? storageError(error, "appending", this.#path) : new OutcomeUnknownError([], error);
    }
    for (const sibling of siblingsOf(this.#path)) if (sibling !== this) sibling.#lookAgain();
    const begun = this.#checkpointer.committed(bytes);
    if (this.#options.durability === "full") await this.#makeDurable();
    else if (begun) this.#refuseLostFile();
    return result;
  }

  protected async query<T>(work: () => T): Promise<T> {
    for (const deadline = performance.now() + this.#options.busyTimeoutMs;;) {
      this.#refuseClosed();
      try {
        return this.#read(work);
      } catch (error) {
        if (!isBusy(error) || performance.now() > deadline) throw storageError(error, "reading", this.#path);
      }
      await sleep(backoff());
    }
  }

  /**
   * One state of the file for all seeks of a read, though another process may be removing what it has erased. It serves
   * all reads of a turn of the event loop, as `changed` says why it may: beginning and ending costs more than a seek.
   */
  #read<T>(work: () => T): T {
    try {
      if (!this.#isReading) {
        this.#beginRead.run();
        this.#isReading = true;
        setImmediate(() => this.#endRead());
        this.#noticeOthers();
      }
      return work();
    } catch (error) {
      this.#endRead();
      throw error;
    }
  }

  #endRead(): void {
    if (!this.#isReading) return;
    this.#isReading = false;
    try {
      this.#commit.run();
    } catch {
      // SQLite has ended it by itself.
    }
  }

  /** Another log in this process has written, and may tell of it in this very turn. */
  #lookAgain(): void {
    this.#lookedThisTurn = false;
    this.#endRead();
  }

  adopt(piece: Piece): Promise<void> {
    return this.write(() => adoptPiece(this.store, this.payloads, piece), bytesOf([{ events: piece.events }]));
  }

  changed(): boolean {
    // Another process can tell us of its append only through an event, which begins a new turn of the event loop. So
    // one look a turn misses nothing that a reader could know of.
    if (!this.#lookedThisTurn && !this.#closed) {
      this.#lookedThisTurn = true;
      setImmediate(() => this.#lookedThisTurn = false);
      this.#noticeOthers();
    }
    return this.#headVersion !== this.#storeVersion;
  }

  async head(): Promise<LogHead> {
    const head = await this.query(() => this.store.head());
    const others = this.#headVersion !== this.#storeVersion;
    this.#headVersion = this.#storeVersion;
    // What others have committed may not be durable yet; nobody should act on what a power cut could take back.
    if (others && !this.readOnly && this.#options.durability === "full") await this.#makeDurable();
    return head;
  }

  async scrub(onlyIfDue = false): Promise<void> {
    this.#refuseClosed();
    this.#refuseReadOnly();
    if (onlyIfDue && !await this.query(() => this.store.isScrubDue)) return;
    // SQLite overwrites what it deletes, but not the copies that it left behind when it moved cells between pages; and
    // the WAL holds older pages until it is cut.
    for (const sql of ["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"]) {
      const deadline = performance.now() + this.#options.busyTimeoutMs;
      while (!await this.#runsAside(sql, deadline)) await sleep(backoff());
    }
    await this.write(() => this.store.scrubbed(), 0);
  }

  /** Runs a statement off the event loop; false if others were in the way and there is time to try again. */
  async #runsAside(sql: string, deadline: number): Promise<boolean> {
    try {
      const [row] = await this.#worker.run(sql);
      if (row?.busy !== 1) return true;
    } catch (error) {
      this.#noteFailure(error);
      if (!isBusy(error)) throw scrubError(error, this.#path);
    }
    if (performance.now() < deadline) return false;
    throw new ThreadlogError("busy", "Others kept the file in use, so that copies of what was erased may remain", {
      place: this.#path,
      remedy: "The erasure itself is done; call compact() when nobody else reads or writes.",
    });
  }

  async stats(): Promise<BackendStats> {
    const counts = await this.query(() => this.store.counts());
    const [dataBytes, walBytes] = await Promise.all([sizeOf(this.#path), sizeOf(`${this.#path}-wal`)]);
    return { engine: this.store.engine, ...counts, dataBytes, walBytes };
  }

  async integrity(): Promise<readonly string[]> {
    this.#refuseClosed();
    try {
      const rows = await this.#worker.run("PRAGMA integrity_check(10)");
      return rows.map((row) => String(row.integrity_check)).filter((line) => line !== "ok");
    } catch (error) {
      return [(error as Error).message];
    }
  }

  async backup(target: string): Promise<void> {
    this.#refuseClosed();
    await copyDatabase(this.#path, resolve(target), this.#worker, this.#connection.driver);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    siblingsOf(this.#path).delete(this);
    this.#endRead();
    await this.#checkpointer.settle();
    await this.#worker.close();
    await this.#sync.close();
    try {
      this.#connection.close();
    } catch (error) {
      throw storageError(error, "closing it", this.#path);
    }
  }

  /** Begins a transaction; false if another process is in the way and there is time to try again. */
  #begins(deadline: number): boolean {
    this.#refuseClosed();
    if (this.#failure !== undefined) {
      throw new ThreadlogError("storage", "The log stopped writing after its disk failed", {
        place: this.#path,
        remedy: "Close it, look at the disk, and open it again; everything acknowledged is kept.",
        cause: this.#failure,
      });
    }
    this.#endRead();
    try {
      this.#begin.run();
    } catch (error) {
      if (isBusy(error) && performance.now() <= deadline) return false;
      throw storageError(error, "appending", this.#path);
    }
    this.#noticeOthers();
    return true;
  }

  #rollback(): void {
    this.store.undo();
    this.payloads.forget();
    try {
      this.#connection.exec("ROLLBACK");
    } catch {
      // SQLite has rolled back by itself.
    }
  }

  /** What is written to a file without its name is gone when the process ends. */
  #refuseLostFile(): void {
    if (statSync(this.#path, { throwIfNoEntry: false })?.ino === this.#inode) return;
    this.#failure ??= new Error("the file was removed or replaced while it was open");
    throw new ThreadlogError("storage", "The file was removed or replaced while the log was open", {
      place: this.#path,
      remedy: "What was appended since then is lost. Close the log; restore the file, then open it again.",
    });
  }

  /** After a sync that failed nothing more is written: it could be acknowledged and lost. */
  #noteFailure(error: unknown): void {
    if (isSyncFailure(error)) this.#failure ??= error;
  }

  async #makeDurable(): Promise<void> {
    this.#refuseLostFile();
    try {
      await this.#sync.sync();
    } catch (error) {
      this.#failure ??= error; // as in #noteFailure
      throw new OutcomeUnknownError([], error);
    }
  }

  #othersVersion(): number {
    return this.#dataVersion.get()!.data_version as number;
  }

  #noticeOthers(): void {
    const version = this.#othersVersion();
    if (version === this.#storeVersion) return;
    this.#storeVersion = version;
    this.store.forget();
  }

  #refuseReadOnly(): void {
    if (!this.readOnly) return;
    throw new ThreadlogError("read_only", "The log is open read-only", { remedy: "Open it without { readOnly }." });
  }

  #refuseClosed(): void {
    if (!this.#closed) return;
    throw new ThreadlogError("closed", "The log is closed", { place: this.#path, remedy: "Open it again." });
  }
}

function scrubError(error: unknown, path: string): ThreadlogError {
  const details = { place: path, cause: error };
  if (/too many attached databases/.test(String(error))) {
    return new ThreadlogError("unsupported", "Deno lets a program rewrite a database only if it may do everything", {
      ...details,
      remedy: "The erasure itself is done, but copies of it may remain in the file: run with -A and call compact().",
    });
  }
  return new ThreadlogError("storage", "What was erased is gone for every reader, but copies of it may remain", {
    ...details,
    remedy: "See the cause, then call compact().",
  });
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch {
    return 0;
  }
}

/**
 * The open backends of each file in this process: what one has committed, another may be asked for in the same turn.
 * (Under another name of the file it will be seen in the next.)
 */
const siblings = new Map<string, Set<SqliteBackend>>();

function siblingsOf(path: string): Set<SqliteBackend> {
  let found = siblings.get(path);
  if (found === undefined) siblings.set(path, found = new Set());
  return found;
}
