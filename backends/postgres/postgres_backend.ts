/**
 * The backend behind `openLog("postgres://user@host/database")`: one schema of a PostgreSQL database, which instances on
 * any number of machines may share. Each call of the port is one call of a function there.
 *
 * What one instance reads of another's appends: once an append is acknowledged, every `head()` that begins later sees
 * it, and so do `Log.refresh()` and a refused `expect`. Other reads look at most every 50 ms, and without waiting: they
 * may miss what others have appended in the last 250 ms. So may an update or an erasure of what another instance has
 * only just made: it says that the key is missing, or finds nothing to erase. Logs that one process has open on one
 * schema tell each other and miss nothing. Positions are drawn under a lock that is kept until the commit, so that
 * nothing ever appears before a position that was seen.
 *
 * @module
 */

import { setTimeout as sleep } from "node:timers/promises";
import type {
  AppendOutcome,
  AppendRequest,
  Backend,
  BackendStats,
  Chain,
  KeyRange,
  LogHead,
  Piece,
  PositionRange,
  ReadPoint,
  SavedState,
  StoredEvent,
  ThreadRange,
  ThreadRecord,
  VersionRange,
} from "../../log/backend.ts";
import { notNextError, OutcomeUnknownError, ThreadlogError } from "../../log/errors.ts";
import type { ThreadPath } from "../../log/ids.ts";
import type { Position } from "../../log/position.ts";
import { packPiece, packRequests, unpackOutcomes } from "./batch.ts";
import type { Parameter, Row } from "./driver.ts";
import { failure, threadFailure, writeFailure } from "./failures.ts";
import { type OpenServer, openServer, type PostgresOptions } from "./open_server.ts";
import { INTEGRITY, STATS } from "./inspect_sql.ts";
import { chainsOf, eventOf, nameBytes, recordOf } from "./rows.ts";

/** How many erased events one purge step removes. */
const PURGE_STEP = 1000;
/** How often to look for others' appends while somebody asks, and how old the last look may be, in milliseconds. */
const LOOK_MS = 50;
const STALE_MS = 250;
/** How often to see whether older transactions have ended, in milliseconds. */
const LOOK_AGAIN_MS = 20;

/** Events on a server. */
export class PostgresBackend implements Backend {
  readonly kind = "postgres";
  readonly readOnly: boolean;
  readonly codecId: string;
  readonly #server: OpenServer;
  readonly #options: PostgresOptions;
  /** How far the log is known to go, how far its reader has been told, and when somebody last looked. */
  #known: Position = 0;
  #told: Position = 0;
  #lookedAt = -Infinity;
  #looking = false;
  #closed = false;

  private constructor(server: OpenServer, options: PostgresOptions) {
    this.#server = server;
    this.#options = options;
    this.readOnly = options.readOnly;
    this.codecId = server.codecId;
  }

  /** Opens or creates a log. Flat in its size. */
  static async open(url: string, options: PostgresOptions): Promise<PostgresBackend> {
    const backend = new PostgresBackend(await openServer(url, options), options);
    backend.#siblings().add(backend);
    return backend;
  }

  async append(requests: readonly AppendRequest[]): Promise<readonly AppendOutcome[]> {
    this.#refuseReadOnly();
    if (requests.length === 0) return [];
    const { paths, json, bytes } = packRequests(requests);
    const known = this.#known;
    const [row] = await this.#insist(
      requests,
      () =>
        this.#write("SELECT threadlog.append($1, $2, $3, $4, $5) AS outcomes", [
          json,
          bytes,
          this.#options.now(),
          this.#waitMs,
          this.#options.durability === "full",
        ], "appending"),
    );
    const outcomes = unpackOutcomes(row!.outcomes, paths);
    for (const outcome of outcomes) {
      if (outcome.kind !== "appended" || outcome.placements.length === 0) continue;
      const { position } = outcome.placements.at(-1)!;
      if (position <= known) throw this.#rewound(known, position - 1);
      // Others' positions before it are told by its own; those behind it are not.
      this.#told = Math.max(this.#told, position);
      this.#known = Math.max(this.#known, position);
      this.#lookedAt = performance.now();
      for (const sibling of this.#siblings()) sibling.#known = Math.max(sibling.#known, position);
    }
    return outcomes;
  }

  async adopt(piece: Piece): Promise<void> {
    this.#refuseReadOnly();
    const { json, bytes } = packPiece(piece);
    const [row] = await this.#write(
      "SELECT threadlog.adopt($1, $2, $3) AS head",
      [json, bytes, this.#waitMs],
      "copying",
    );
    if (row!.head !== null) throw notNextError(row!.head as number, piece.after);
  }

  changed(): boolean {
    if (this.#closed) return false;
    const age = performance.now() - this.#lookedAt;
    // After a pause a reader waits for one look; while it goes on reading, looks are made behind its back.
    if (age > STALE_MS) return true;
    if (age > LOOK_MS && !this.#looking) {
      this.#looking = true;
      // A failure shows to whoever reads once the last look is too old.
      this.#look().catch(() => {}).finally(() => this.#looking = false);
    }
    return this.#known > this.#told;
  }

  async head(): Promise<LogHead> {
    const head = await this.#look();
    this.#told = Math.max(this.#told, head.position);
    return head;
  }

  /**
   * Where a server was lost in the middle of an append and there is another one: tries again there, if an id tells each
   * request from one that was carried out before.
   */
  async #insist<T>(requests: readonly AppendRequest[], append: () => Promise<T>): Promise<T> {
    const { servers } = this.#server;
    const isSafe = servers.areSeveral && requests.every(({ events }) => events.some(({ id }) => id !== undefined));
    for (const deadline = performance.now() + this.#waitMs;;) {
      try {
        return await append();
      } catch (error) {
        if (!isSafe || !(error instanceof OutcomeUnknownError) || performance.now() > deadline) throw error;
      }
    }
  }

  /** Another server has taken over that lacks what was seen: its primary did not wait for it. */
  #rewound(seen: Position, head: Position): ThreadlogError {
    return new ThreadlogError("storage", `The log ended at position ${seen}, and now ends at ${head}`, {
      place: this.#server.place,
      remedy: "The server that took over lacks the rest: no standby was synchronous. Close the log and open it again.",
    });
  }

  async #look(): Promise<LogHead> {
    const known = this.#known;
    const [row] = await this.#read("SELECT position, time FROM threadlog.lanes WHERE lane = 1", []);
    const head = { position: row!.position as number, time: row!.time as number };
    if (head.position < known && !this.readOnly) throw this.#rewound(known, head.position);
    this.#known = Math.max(this.#known, head.position);
    this.#lookedAt = performance.now();
    return head;
  }

  async purge(): Promise<boolean> {
    this.#refuseReadOnly();
    const sql = "SELECT threadlog.purge($1, $2) AS more";
    const [row] = await this.#write(sql, [PURGE_STEP, this.#waitMs], "erasing");
    return row!.more as boolean;
  }

  /**
   * Writes the tables anew, which keeps others out meanwhile. (The server's write-ahead log, its standbys and its
   * backups hold copies until they are recycled.)
   */
  async scrub(onlyIfDue = false): Promise<void> {
    this.#refuseReadOnly();
    const [lane] = await this.#read(
      "SELECT tombstone + erased AS now, scrubbed FROM threadlog.lanes WHERE lane = 1",
      [],
    );
    if (onlyIfDue && lane!.now === lane!.scrubbed) return;
    const { writing, place, inSchema } = this.#server;
    await this.#outlast();
    try {
      await writing.script(`SET lock_timeout = ${this.#waitMs}`);
      for (const table of ["threadlog.events", "threadlog.states"]) {
        await writing.script(inSchema(`VACUUM (FULL) ${table}`));
      }
    } catch (error) {
      throw failure(error, "scrubbing", place);
    } finally {
      await writing.script("RESET lock_timeout").catch(() => {});
    }
    await this.#write("UPDATE threadlog.lanes SET scrubbed = greatest(scrubbed, $1) WHERE lane = 1", [
      lane!.now as number,
    ], "scrubbing");
  }

  /** VACUUM keeps what a transaction that is still open might look at: waits for those that began before now. */
  async #outlast(): Promise<void> {
    const [row] = await this.#read("SELECT pg_current_xact_id()::text AS mark", []);
    for (const deadline = performance.now() + this.#waitMs;;) {
      const [older] = await this.#read(
        `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
           AND age(backend_xmin) > age($1::text::xid8::xid)`,
        [row!.mark as string],
      );
      if (older!.n === 0) return;
      if (performance.now() > deadline) {
        throw new ThreadlogError("busy", "Open transactions keep what was erased from being removed from the files", {
          place: this.#server.place,
          remedy: "The erasure itself is done; call compact() when they have ended (pg_stat_activity shows them).",
        });
      }
      await sleep(LOOK_AGAIN_MS);
    }
  }

  async thread(path: ThreadPath, at: ReadPoint): Promise<ThreadRecord | undefined> {
    const [row] = await this.#readThread("SELECT * FROM threadlog.thread($1, $2, $3)", path, at, []);
    return row && recordOf(row);
  }

  async threads({ prefix, after, limit, at }: ThreadRange): Promise<readonly ThreadRecord[]> {
    const rows = await this.#read("SELECT * FROM threadlog.threads($1, $2, $3, $4)", [
      nameBytes(prefix),
      nameBytes(after ?? ""),
      limit,
      at,
    ]);
    return rows.map(recordOf);
  }

  async entry(path: ThreadPath, key: string, at: ReadPoint): Promise<Chain> {
    const sql = "SELECT * FROM threadlog.entry($1, $2, $3, $4)";
    return (await this.#readThread(sql, path, at, [nameBytes(key)])).map(eventOf);
  }

  async latest(path: ThreadPath, at: ReadPoint): Promise<Chain> {
    return (await this.#readThread("SELECT * FROM threadlog.latest($1, $2, $3)", path, at, [])).map(eventOf);
  }

  async entries(path: ThreadPath, at: ReadPoint, range: KeyRange): Promise<readonly Chain[]> {
    const { prefix, after, limit, reverse } = range;
    const rows = await this.#readThread("SELECT * FROM threadlog.entries($1, $2, $3, $4, $5, $6, $7)", path, at, [
      nameBytes(prefix),
      after === undefined ? null : nameBytes(after),
      limit,
      reverse,
    ]);
    return chainsOf(rows.map(eventOf));
  }

  async history(path: ThreadPath, { from, to, limit, reverse }: VersionRange): Promise<readonly StoredEvent[]> {
    const sql = "SELECT * FROM threadlog.history($1, $2, $3, $4, $5)";
    return (await this.#read(sql, [nameBytes(path), from, to, limit, reverse])).map(eventOf);
  }

  async read({ after, to, limit }: PositionRange): Promise<readonly StoredEvent[]> {
    return (await this.#read("SELECT * FROM threadlog.read($1, $2, $3)", [after, to, limit])).map(eventOf);
  }

  async byId(path: ThreadPath, id: string): Promise<StoredEvent | undefined> {
    const sql = "SELECT * FROM threadlog.by_id($1, $2)";
    const [row] = await this.#read(sql, [nameBytes(path), nameBytes(id)]);
    return row && eventOf(row);
  }

  async positionAt(time: number, to: Position): Promise<Position> {
    const [row] = await this.#read("SELECT threadlog.position_at($1, $2) AS position", [time, to]);
    return row!.position as number;
  }

  async loadState(name: string): Promise<SavedState | undefined> {
    const sql = "SELECT version, position, state FROM threadlog.states WHERE sha256(name) = sha256($1)";
    const [row] = await this.#read(sql, [nameBytes(name)]);
    return row as unknown as SavedState | undefined;
  }

  async saveState(name: string, { version, position, state }: SavedState): Promise<void> {
    this.#refuseReadOnly();
    const values = [nameBytes(name), version, position, state, this.#waitMs];
    await this.#write("SELECT threadlog.save_state($1, $2, $3, $4, $5)", values, "saving a state");
  }

  async stats(): Promise<BackendStats> {
    const [row] = await this.#read(STATS, [`"${this.#options.schema}"`]);
    const { lagMs, ...counts } = row as unknown as Omit<BackendStats, "engine" | "walBytes" | "lagMs"> & {
      readonly lagMs: number | null;
    };
    // The write-ahead log is the whole server's.
    return { engine: this.#server.engine, ...counts, walBytes: 0, ...lagMs === null ? {} : { lagMs } };
  }

  async integrity(): Promise<readonly string[]> {
    this.#refuseClosed();
    try {
      const rows = await this.#read(INTEGRITY, [`"${this.#options.schema}"`]);
      return rows.map(({ finding }) => finding as string);
    } catch (error) {
      return [(error as Error).message];
    }
  }

  // deno-lint-ignore require-await
  async backup(_target: string): Promise<void> {
    this.#refuseClosed();
    throw new ThreadlogError("unsupported", "A log on a server is backed up with the server's own tools", {
      place: this.#server.place,
      remedy: `As in pg_dump --schema=${this.#options.schema}, which is restored to the same log.`,
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#siblings().delete(this);
    if (this.#siblings().size === 0) siblings.delete(this.#server.place);
    const { writing, reading, place } = this.#server;
    try {
      await Promise.all([writing.close(), reading.close()]);
    } catch (error) {
      throw failure(error, "closing it", place);
    }
  }

  /** Another transaction is waited for this long; the server takes 0 for "for ever". */
  get #waitMs(): number {
    return Math.max(1, this.#options.busyTimeoutMs);
  }

  async #write(sql: string, parameters: readonly Parameter[], doing: string): Promise<Row[]> {
    this.#refuseClosed();
    const { writing, place, inSchema } = this.#server;
    try {
      return await writing.run(inSchema(sql), parameters);
    } catch (error) {
      throw writeFailure(error, doing, place);
    }
  }

  async #read(sql: string, parameters: readonly Parameter[]): Promise<Row[]> {
    this.#refuseClosed();
    const { reading, place, inSchema } = this.#server;
    try {
      return await reading.ask(inSchema(sql), parameters);
    } catch (error) {
      throw failure(error, "reading", place);
    }
  }

  async #readThread(sql: string, path: ThreadPath, at: ReadPoint, more: readonly Parameter[]): Promise<Row[]> {
    this.#refuseClosed();
    const { reading, place, inSchema } = this.#server;
    const point = "version" in at ? [at.version, null] : [null, at.position];
    try {
      return await reading.ask(inSchema(sql), [nameBytes(path), ...point, ...more]);
    } catch (error) {
      const where = "version" in at ? `version ${at.version}` : `position ${at.position}`;
      throw failure(threadFailure(error, path, where), "reading", place);
    }
  }

  #refuseReadOnly(): void {
    if (!this.readOnly) return;
    throw new ThreadlogError("read_only", "The log is open read-only", { remedy: "Open it without { readOnly }." });
  }

  #refuseClosed(): void {
    if (!this.#closed) return;
    throw new ThreadlogError("closed", "The log is closed", { place: this.#server.place, remedy: "Open it again." });
  }

  /** The open logs of this process on the same schema: what one has committed, the others know of at once. */
  #siblings(): Set<PostgresBackend> {
    let found = siblings.get(this.#server.place);
    if (found === undefined) siblings.set(this.#server.place, found = new Set());
    return found;
  }
}

const siblings = new Map<string, Set<PostgresBackend>>();
