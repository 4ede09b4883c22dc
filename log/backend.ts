/**
 * The port that every store of events implements: memory, SQLite, PostgreSQL. Above it everything is asynchronous,
 * several writers exist, and positions are assigned by the backend. Below it nothing decodes a value.
 *
 * One call is one round trip: a backend that lives on another machine answers each of these with one query.
 *
 * @module
 */

import type { ThreadPath } from "./ids.ts";
import type { Position, Version } from "./position.ts";

/** How an event's `value` bytes are to be read. */
export const Form = {
  /** The value as the codec wrote it. */
  whole: 0,
  /** RFC 6902 operations, as the codec wrote them, on the value at `base`. */
  patch: 1,
} as const;

/** One of the forms above. */
export type Form = typeof Form[keyof typeof Form];

/** An event on its way to the backend: everything but its place. */
export interface EventInput {
  readonly path: ThreadPath;
  readonly type: string;
  readonly key: string | undefined;
  readonly id: string | undefined;
  /** The schema version of the value, from 1. */
  readonly schema: number;
  readonly form: Form;
  readonly value: Uint8Array | undefined;
  /** The whole value after a patch, where reading it through its bases would cost too much. */
  readonly state: Uint8Array | undefined;
  /** The position of the event whose value this one builds on. */
  readonly base: Position | undefined;
  readonly meta: Uint8Array | undefined;
  /** For a fork or a restore: where the thread's state continues from. */
  readonly origin: { readonly path: ThreadPath; readonly version: Version } | undefined;
  /** SHA-256 of all of the above (digest.ts). */
  readonly digest: Uint8Array;
}

/** Where the backend put an event. */
export interface Placement {
  readonly position: Position;
  readonly version: Version;
  /** Milliseconds since 1970; never less than the event before. */
  readonly time: number;
  /** SHA-256 over the previous event's link, the digest and the place: the thread's hash chain. */
  readonly link: Uint8Array;
  /** The position of the thread's newest entry, as of this event; 0 if it has none. */
  readonly latest: Position;
}

/** An event as the backend keeps it. */
export interface StoredEvent extends Omit<EventInput, "digest" | "origin">, Placement {}

/** What must hold for a request to be accepted. */
export interface Expectation {
  readonly path: ThreadPath;
  /** The thread's version before the request; 0 means that it must not exist. */
  readonly version: Version;
}

/** Events that are appended together or not at all. */
export interface AppendRequest {
  readonly events: readonly EventInput[];
  readonly expects: readonly Expectation[];
}

/** What became of a request. A refused one left nothing behind. */
export type AppendOutcome =
  | { readonly kind: "appended"; readonly placements: readonly Placement[] }
  | { readonly kind: "conflict"; readonly path: ThreadPath; readonly expected: Version; readonly actual: Version }
  /** Ids of the request are taken: for each event the one that has its id, if there is one. */
  | { readonly kind: "duplicate"; readonly found: readonly (StoredEvent | undefined)[] }
  /** The origin of a fork or restore does not exist, or was erased. */
  | { readonly kind: "no_origin"; readonly path: ThreadPath; readonly version: Version; readonly erased: boolean };

/** An event as another log has it, with what a fork or restore continues from. */
export type AdoptedEvent = StoredEvent & Pick<EventInput, "origin">;

/** A piece of another log. */
export interface Piece {
  /** The position that it follows: the head of the log that takes it over. */
  readonly after: Position;
  /** In the order of their positions. Those that are missing in between were erased. */
  readonly events: readonly AdoptedEvent[];
  /** The threads that are met for the first time, each behind the one that it was forked from. */
  readonly threads: readonly ThreadRecord[];
}

/** The end of the log. */
export interface LogHead {
  readonly position: Position;
  /** The time of the last event; 0 if there is none. */
  readonly time: number;
}

/** A moment at which to read a thread. A version counts along its history, a position along the log. */
export type ReadPoint = { readonly version: Version } | { readonly position: Position };

/** What a backend knows of a thread. */
export interface ThreadRecord {
  readonly path: ThreadPath;
  readonly version: Version;
  readonly position: Position;
  /** The position of the newest entry; 0 if there is none. */
  readonly latest: Position;
  /** The position of the thread's own first event. */
  readonly created: Position;
  /** The time of its last event. */
  readonly time: number;
  /** The last version that was erased; 0 if none. */
  readonly erased: Version;
  /** Whose history it shares. */
  readonly parent: { readonly path: ThreadPath; readonly version: Version } | undefined;
}

/**
 * An event that set a key, preceded by all that is needed to read its value: the newest first, the last one whole (its
 * form is `whole`, or it carries `state`). Empty where the key is not there.
 */
export type Chain = readonly StoredEvent[];

/** Which keys to list. Keys are in code point order, or its reverse. */
export interface KeyRange {
  readonly prefix: string;
  /** Start behind this key (before it, if reverse). */
  readonly after: string | undefined;
  readonly limit: number;
  readonly reverse: boolean;
}

/** Which events of a thread to read, inherited ones included. */
export interface VersionRange {
  readonly from: Version;
  readonly to: Version;
  readonly limit: number;
  readonly reverse: boolean;
}

/** Which events of the log to read. */
export interface PositionRange {
  readonly after: Position;
  readonly to: Position;
  readonly limit: number;
}

/** Which threads to list, in the order of their paths. */
export interface ThreadRange {
  readonly prefix: ThreadPath | "";
  readonly after: ThreadPath | undefined;
  readonly limit: number;
  /** Only threads that existed at this position. */
  readonly at: Position;
}

/** The saved state of a projection. */
export interface SavedState {
  readonly version: number;
  readonly position: Position;
  readonly state: Uint8Array;
}

/** What a backend says of itself. */
export interface BackendStats {
  /** Its kind and the engine's version, as in "sqlite 3.54.1 (bun:sqlite)". */
  readonly engine: string;
  /** How many threads have ever been named. */
  readonly threads: number;
  /** How many events are kept. */
  readonly events: number;
  /** How many events have been erased. */
  readonly erased: number;
  /** Whether some of them are still to be removed; nobody can read them any more. */
  readonly purging: boolean;
  /** Bytes on disk; 0 in memory. */
  readonly dataBytes: number;
  /** Bytes on disk of the write-ahead log; 0 where there is none. */
  readonly walBytes: number;
  /** How far a standby is behind its primary, in milliseconds; absent for anything else. */
  readonly lagMs?: number;
}

/** A store of events. */
export interface Backend {
  /** Its kind, as in "memory". */
  readonly kind: string;
  readonly readOnly: boolean;
  /** The codec that wrote the log: compared with the one it is opened with. */
  readonly codecId: string;

  /**
   * Appends in one transaction. Resolves when everything accepted is as durable as was asked of the backend, and
   * rejects with `outcome_unknown` where it can't tell, with any other code where nothing was kept. What would hold up
   * the event loop for long it leaves for the next call: there may be fewer outcomes than requests, but for one at least.
   */
  append(requests: readonly AppendRequest[]): Promise<readonly AppendOutcome[]>;
  /**
   * Takes over a piece of another log, places and all, in one transaction. Refused with `conflict` where it does not
   * follow the head. A log in memory can't.
   */
  adopt?(piece: Piece): Promise<void>;
  /** Whether others may have appended since the last `head()` or `append()`; costs no round trip. */
  changed(): boolean;
  /** The durable end of the log, others' appends included. */
  head(): Promise<LogHead>;
  /** Removes what tombstones have erased, a bounded piece at a time; true while more is left. */
  purge(): Promise<boolean>;
  /**
   * Overwrites the copies that the engine may have left of what was purged. Costs the size of the log; nothing, if it is
   * to be done only where it is due and there has been no erasure since the last time.
   */
  scrub(onlyIfDue?: boolean): Promise<void>;

  thread(path: ThreadPath, at: ReadPoint): Promise<ThreadRecord | undefined>;
  threads(range: ThreadRange): Promise<readonly ThreadRecord[]>;
  entry(path: ThreadPath, key: string, at: ReadPoint): Promise<Chain>;
  latest(path: ThreadPath, at: ReadPoint): Promise<Chain>;
  entries(path: ThreadPath, at: ReadPoint, range: KeyRange): Promise<readonly Chain[]>;
  history(path: ThreadPath, range: VersionRange): Promise<readonly StoredEvent[]>;
  read(range: PositionRange): Promise<readonly StoredEvent[]>;
  byId(path: ThreadPath, id: string): Promise<StoredEvent | undefined>;
  /** The last position whose event is not newer than a time, at most `to`. */
  positionAt(time: number, to: Position): Promise<Position>;

  loadState(name: string): Promise<SavedState | undefined>;
  /** Keeps a state. A tombstone drops all states from before it, saved or yet to be saved: they may hold what it erased. */
  saveState(name: string, saved: SavedState): Promise<void>;

  stats(): Promise<BackendStats>;
  /** What the engine itself finds wrong with its file, a sentence each. */
  integrity(): Promise<readonly string[]>;
  /** Copies the log as it stands to a new file. */
  backup(target: string): Promise<void>;
  close(): Promise<void>;
}
