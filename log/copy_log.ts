/**
 * Moving house: copying a log to another place, as it is.
 *
 * @module
 */

import { guarded, isThenable, takeOptions } from "./arguments.ts";
import type { AdoptedEvent, Backend, Piece, StoredEvent, ThreadRecord } from "./backend.ts";
import type { Core } from "./core.ts";
import { sameBytes } from "./digest.ts";
import { invalid, ThreadlogError } from "./errors.ts";
import type { ForkEvent, RestoreEvent } from "./event.ts";
import { parseThreadId, showPath, type ThreadPath } from "./ids.ts";
import { coreOf, type Log } from "./log.ts";
import { openLog, type OpenOptions } from "./open.ts";
import { END, type Position } from "./position.ts";

/** How far a copy is. */
export interface CopyLogProgress {
  /** The last position that was copied. */
  readonly position: Position;
  /** The end of the log that is copied, as far as it was seen. */
  readonly head: Position;
}

/** How to copy a log. Beside these, the options by which the copy is opened. */
export interface CopyLogOptions
  extends Pick<OpenOptions, "schema" | "busyTimeoutMs" | "maxValueBytes" | "driver" | "allowNetworkFilesystem"> {
  /**
   * Called once the copy has caught up. Stop whatever writes to the log, and return (a promise) when that is done: what
   * came in meanwhile is copied, and then the copy is the log. Without it, the copy is as of some moment.
   */
  readonly switch?: () => unknown;
  /** Called after each piece. */
  readonly onProgress?: (progress: CopyLogProgress) => void;
  /** Stops between two pieces; calling again goes on from there. */
  readonly signal?: AbortSignal;
}

/** What was copied. */
export interface CopyLogReport {
  /** The last position of the copy. */
  readonly position: Position;
  /** How many events it holds. */
  readonly events: number;
  /** How many positions hold nothing any more. */
  readonly erased: number;
  /** How many threads it names. */
  readonly threads: number;
}

/** Events fetched at a time, and bytes of values that are sent on at once. */
const PAGE = 256;
const PIECE_BYTES = 4 << 20;

const OPENING = ["schema", "busyTimeoutMs", "maxValueBytes", "driver", "allowNetworkFilesystem"] as const;

/**
 * Copies a log to another place: from SQLite to PostgreSQL, back, or to another file. Everything stays as it is:
 * positions, versions, ids, times, forks, erasures, hashes. The log may be in use meanwhile; only the last step, behind
 * `switch`, needs it to stand still. At the end the copy is verified, event by event, against the log.
 *
 * A copy that was cut short is gone on with by calling again. What else is in the target is refused, with the first
 * position that differs. The log itself is never changed.
 *
 * @example
 * ```ts
 * import { copyLog, openLog } from "threadlog";
 * import { mkdtempSync } from "node:fs";
 *
 * const folder = mkdtempSync("/tmp/move-");
 * await using log = await openLog(`${folder}/agent.db`);
 * await log.thread("a").put("k", 1);
 *
 * const report = await copyLog(log, `${folder}/copy.db`); // or "postgres://user@host/database"
 * console.log(report.position, report.events); // 1 1
 * ```
 */
export async function copyLog(from: Log, to: string, options: CopyLogOptions = {}): Promise<CopyLogReport> {
  const source = guarded("from", () => coreOf(from));
  const given = takeOptions(options, [...OPENING, "switch", "onProgress", "signal"]);
  const { switch: stopWriters, onProgress, signal, ...opening } = given;
  for (const [name, value] of [["switch", stopWriters], ["onProgress", onProgress]] as const) {
    if (value === undefined || typeof value === "function") continue;
    throw invalid(`\`${name}\` must be a function`, `options.${name}`, "Leave it out if there is nothing to do.");
  }
  if (to === ":memory:") throw invalid("A copy in memory is out of reach", "to", "Name a file or a database.");
  const open = (more: OpenOptions) => openLog(to, { ...opening, codec: source.records.codec, ...more });
  const target = await open({});
  try {
    const copy = new Copy(source, coreOf(target).backend, signal, onProgress);
    await copy.begin();
    await copy.catchUp();
    if (stopWriters !== undefined) {
      const stopped: unknown = stopWriters();
      if (isThenable(stopped, "switch")) await stopped;
      await from.flush();
      await copy.catchUp();
    }
    await copy.finish();
  } finally {
    await target.close();
  }
  await using copied = await open({ readOnly: true });
  await compare(source, coreOf(copied).backend, await copied.head(), stopWriters !== undefined);
  const { ok, first } = await copied.verify();
  if (!ok) throw differs(first!.position, `it does not verify: ${first!.reason}`);
  const { position, events, erased, threads } = await copied.stats();
  return Object.freeze({ position, events, erased, threads });
}

/** One copy at work. */
class Copy {
  readonly #source: Core;
  readonly #target: Backend;
  readonly #signal: AbortSignal | undefined;
  readonly #onProgress: CopyLogOptions["onProgress"];
  /** Threads that the target knows. */
  readonly #known = new Set<ThreadPath>();
  #position: Position = 0;

  constructor(
    source: Core,
    target: Backend,
    signal: AbortSignal | undefined,
    onProgress: CopyLogOptions["onProgress"],
  ) {
    this.#source = source;
    this.#target = target;
    this.#signal = signal;
    this.#onProgress = onProgress;
  }

  /** Looks at what is there already. */
  async begin(): Promise<void> {
    const { position } = await this.#target.head();
    const head = await this.#head();
    if (position > head) throw differs(head + 1, `it goes to position ${position}, and the log to ${head}`);
    await compareEvents(this.#source.backend, this.#target, position, false);
    this.#position = position;
  }

  /** Copies what there is, until nothing more has come in meanwhile. */
  async catchUp(): Promise<void> {
    for (let head = await this.#head(); this.#position < head; head = await this.#head()) {
      while (this.#position < head) {
        const page = await this.#source.backend.read({ after: this.#position, to: head, limit: PAGE });
        for (const events of piecesOf(page)) await this.#copy(events, head);
        // The last event of a log is always there: the rest of the page may only have been erased just now.
        if (page.length === 0) break;
      }
    }
  }

  async #head(): Promise<Position> {
    this.#signal?.throwIfAborted();
    return (await this.#source.backend.head()).position;
  }

  async #copy(stored: readonly StoredEvent[], head: Position): Promise<void> {
    this.#signal?.throwIfAborted();
    const threads: ThreadRecord[] = [];
    const events: AdoptedEvent[] = [];
    for (const event of stored) {
      await this.#introduce(event.path, threads);
      const origin = originOf(this.#source, event);
      if (origin !== undefined) await this.#introduce(origin.path, threads);
      events.push({ ...event, origin });
    }
    const piece: Piece = { after: this.#position, events, threads };
    await this.#target.adopt!(piece);
    this.#position = events.at(-1)!.position;
    this.#onProgress?.({ position: this.#position, head });
  }

  /** A thread that is met for the first time, behind the one that it was forked from. */
  async #introduce(path: ThreadPath, threads: ThreadRecord[]): Promise<void> {
    const line: ThreadRecord[] = [];
    for (let at: ThreadPath | undefined = path; at !== undefined && !this.#known.has(at);) {
      const record: ThreadRecord | undefined = await this.#source.backend.thread(at, { position: END });
      if (record === undefined) throw differs(this.#position + 1, `the log has lost thread ${showPath(at)}`);
      line.push(record);
      this.#known.add(at);
      at = record.parent?.path;
    }
    threads.push(...line.reverse());
  }

  /** Removes what the log has erased. */
  async finish(): Promise<void> {
    while (await this.#target.purge());
    await this.#target.scrub(true);
  }
}

/** What a fork or restore continues from. */
function originOf(source: Core, event: StoredEvent): AdoptedEvent["origin"] {
  if (event.type === "fork") {
    const { parent, version } = (source.records.event(event) as ForkEvent).value;
    return { path: parseThreadId(parent), version };
  }
  if (event.type !== "restore") return undefined;
  return { path: event.path, version: (source.records.event(event) as RestoreEvent).value.version };
}

/** Events in pieces of some megabytes. */
function* piecesOf(events: readonly StoredEvent[]): Generator<StoredEvent[]> {
  let piece: StoredEvent[] = [];
  let bytes = 0;
  for (const event of events) {
    piece.push(event);
    bytes += (event.value?.length ?? 0) + (event.state?.length ?? 0) + (event.meta?.length ?? 0);
    if (bytes < PIECE_BYTES) continue;
    yield piece;
    [piece, bytes] = [[], 0];
  }
  if (piece.length > 0) yield piece;
}

/** Holds a copy against its log, up to the copy's end. Of a log that goes on, more may have been erased since. */
async function compare(source: Core, target: Backend, head: Position, stands: boolean): Promise<void> {
  await compareEvents(source.backend, target, head, stands);
  let after: ThreadPath | undefined;
  for (let size = PAGE; size === PAGE;) {
    const page = await target.threads({ prefix: "", limit: PAGE, at: head, after });
    for (const record of page) {
      const other = await source.backend.thread(record.path, { position: head }).catch(() => undefined);
      if (other === undefined && !stands) continue; // erased since
      const isSame = (["version", "position", "latest", "created", "time", "erased"] as const)
        .every((name) => other?.[name] === record[name]) &&
        other?.parent?.path === record.parent?.path &&
        other?.parent?.version === record.parent?.version;
      if (isSame || (!stands && other!.erased > record.erased)) continue;
      throw differs(record.position, `thread ${showPath(record.path)} is another`);
    }
    size = page.length;
    after = page.at(-1)?.path;
  }
}

/** Holds events against each other. The copy lacks none; the log may, unless it stands still. */
async function compareEvents(source: Backend, target: Backend, head: Position, stands: boolean): Promise<void> {
  const theirs = eventsOf(source, head);
  const ours = eventsOf(target, head);
  let mine = await ours.next();
  for await (const event of theirs) {
    // What the log has erased since the copy was made: its tombstone is yet to come.
    while (!mine.done && mine.value.position < event.position && !stands) mine = await ours.next();
    if (mine.done || mine.value.position !== event.position || !sameBytes(mine.value.link, event.link)) {
      throw differs(
        Math.min(event.position, mine.done ? Infinity : mine.value.position),
        "the events are not the same",
      );
    }
    mine = await ours.next();
  }
  if (!mine.done && stands) throw differs(mine.value.position, "the log does not have this event");
}

async function* eventsOf(backend: Backend, head: Position): AsyncGenerator<StoredEvent> {
  for (let after = 0; after < head;) {
    const page = await backend.read({ after, to: head, limit: PAGE });
    yield* page;
    after = page.length < PAGE ? head : page.at(-1)!.position;
  }
}

function differs(position: Position, why: string): ThreadlogError {
  return new ThreadlogError("conflict", `The target is not a copy of the log: ${why}`, {
    place: `position ${position}`,
    remedy: "Name a target that is empty, or that an earlier call has begun; the log was not changed.",
  });
}
