/**
 * The backend port over a store inside this process.
 *
 * @module
 */

import { setImmediate as nextTurn } from "node:timers/promises";
import type {
  AppendOutcome,
  AppendRequest,
  Backend,
  BackendStats,
  Chain,
  KeyRange,
  LogHead,
  PositionRange,
  ReadPoint,
  SavedState,
  StoredEvent,
  ThreadRange,
  ThreadRecord,
  VersionRange,
} from "../../log/backend.ts";
import { ThreadlogError } from "../../log/errors.ts";
import { compareNames, showPath, type ThreadPath } from "../../log/ids.ts";
import type { Position } from "../../log/position.ts";
import type { EventStore, PackedEvent } from "./event_store.ts";
import { chainOf, type Cut, cutAt, eventAt, historyOf, listEntries, newestOf, ownById, recordAt } from "./lineage.ts";
import type { Payloads } from "./payloads.ts";
import { appendRequest, purgeSome, scanVisible } from "./sequencer.ts";

/** How many erased events one purge step removes: a few milliseconds on the caller's thread. */
const PURGE_STEP = 1000;

/** A transaction takes no more requests once it has been at work for so many milliseconds. */
const WORK_MS = 0.5;

/** What takes room in an event. */
type PayloadsOf = Pick<StoredEvent, "value" | "state">;

/** The event loop gets a turn each time that so much has been read in pages: a few milliseconds' work. */
const TURN = 1000;

/** What every backend in this process must know. */
export interface EmbeddedOptions {
  readonly codecId: string;
  readonly now: () => number;
  /** How many bytes of payloads may be kept in memory. */
  readonly payloadBytes: number;
  /** No payload is longer: one that claims to be is damaged. */
  readonly maxValueBytes: number;
}

/** Shared by the memory and the SQLite backend. */
export abstract class EmbeddedBackend implements Backend {
  abstract readonly kind: string;
  abstract readonly readOnly: boolean;
  abstract readonly codecId: string;
  protected abstract readonly store: EventStore;
  protected abstract readonly payloads: Payloads;
  protected readonly now: () => number;
  #read = 0;

  constructor(now: () => number) {
    this.now = now;
  }

  /** Runs `work`, which adds about `bytes`, in one transaction; resolves when it is as durable as was asked. */
  protected abstract write<T>(work: () => T, bytes: number): Promise<T>;
  /** Runs a read; where errors of the engine become the library's. */
  protected abstract query<T>(work: () => T): Promise<T>;

  abstract changed(): boolean;
  abstract head(): Promise<LogHead>;
  abstract scrub(onlyIfDue?: boolean): Promise<void>;
  abstract stats(): Promise<BackendStats>;
  abstract integrity(): Promise<readonly string[]>;
  abstract backup(target: string): Promise<void>;
  abstract close(): Promise<void>;

  append(requests: readonly AppendRequest[]): Promise<readonly AppendOutcome[]> {
    return this.write(() => {
      const now = this.now();
      const end = performance.now() + WORK_MS;
      const outcomes: AppendOutcome[] = [];
      for (const request of requests) {
        outcomes.push(appendRequest(this.store, this.payloads, request, now));
        if (performance.now() > end) break;
      }
      return outcomes;
    }, bytesOf(requests));
  }

  purge(): Promise<boolean> {
    if (this.store.nextToPurge() === undefined) return Promise.resolve(false);
    return this.write(() => {
      // What was erased leaves the memory, too.
      this.payloads.forget();
      return purgeSome(this.store, PURGE_STEP);
    }, 0);
  }

  thread(path: ThreadPath, at: ReadPoint): Promise<ThreadRecord | undefined> {
    return this.query(() => {
      const node = this.store.node(path);
      if (node === undefined) return undefined;
      if ("position" in at) return recordAt(this.store, node, at.position);
      const cut = cutAt(this.store, node, at);
      if (cut === undefined) return undefined;
      const { version, position, latest, time } = eventAt(this.store, cut);
      return { ...recordAt(this.store, node, node.position)!, version, position, latest, time };
    });
  }

  threads(range: ThreadRange): Promise<readonly ThreadRecord[]> {
    return this.#page(() => {
      const records: ThreadRecord[] = [];
      let after: string | undefined = range.after;
      while (records.length < range.limit) {
        const nodes = this.store.nodes(range.prefix, after, Math.min(range.limit, 256));
        for (const node of nodes) {
          const record = recordAt(this.store, node, range.at);
          // A thread that is nothing but a tombstone is not listed.
          if (record !== undefined && record.version > record.erased + (record.erased > 0 ? 1 : 0)) {
            records.push(record);
            if (records.length === range.limit) break;
          }
        }
        const last = nodes.at(-1)?.path;
        if (last === undefined) break;
        if (after !== undefined && compareNames(last, after) <= 0) throw outOfOrder(last);
        after = last;
      }
      return records;
    });
  }

  entry(path: ThreadPath, key: string, at: ReadPoint): Promise<Chain> {
    return this.#atCut(path, at, (cut) => this.#whole(chainOf(this.store, newestOf(this.store, cut, key))));
  }

  latest(path: ThreadPath, at: ReadPoint): Promise<Chain> {
    return this.#atCut(path, at, (cut) => {
      const { latest } = eventAt(this.store, cut);
      return latest === 0 ? [] : this.#whole(chainOf(this.store, this.store.event(latest)));
    });
  }

  async entries(path: ThreadPath, at: ReadPoint, range: KeyRange): Promise<readonly Chain[]> {
    return await this.#paced(
      this.#atCut(path, at, (cut) => listEntries(this.store, cut, range).map((chain) => this.#whole(chain))),
    );
  }

  history(path: ThreadPath, range: VersionRange): Promise<readonly StoredEvent[]> {
    return this.#page(() => {
      const node = this.store.node(path);
      return node === undefined ? [] : this.#whole(historyOf(this.store, node, range));
    });
  }

  read(range: PositionRange): Promise<readonly StoredEvent[]> {
    return this.#page(() => this.#whole(scanVisible(this.store, range)));
  }

  byId(path: ThreadPath, id: string): Promise<StoredEvent | undefined> {
    return this.query(() => {
      const node = this.store.node(path);
      const event = node && ownById(this.store, node, id);
      return event && this.payloads.unpack(event);
    });
  }

  positionAt(time: number, to: Position): Promise<Position> {
    return this.query(() => this.store.positionAt(time, to));
  }

  loadState(name: string): Promise<SavedState | undefined> {
    return this.query(() => this.store.loadState(name));
  }

  saveState(name: string, saved: SavedState): Promise<void> {
    return this.write(() => this.store.saveState(name, saved), saved.state.length);
  }

  #page<T>(read: () => readonly T[]): Promise<readonly T[]> {
    return this.#paced(this.query(read));
  }

  /** Whoever reads page after page lets others have their turn. */
  async #paced<T>(reading: Promise<readonly T[]>): Promise<readonly T[]> {
    const page = await reading;
    this.#read += page.length;
    if (this.#read >= TURN) {
      this.#read = 0;
      await nextTurn();
    }
    return page;
  }

  #whole(events: readonly PackedEvent[]): readonly StoredEvent[] {
    return events.map((event) => this.payloads.unpack(event));
  }

  #atCut<T>(path: ThreadPath, at: ReadPoint, read: (cut: Cut) => readonly T[]): Promise<readonly T[]> {
    return this.query(() => {
      const node = this.store.node(path);
      const cut = node && cutAt(this.store, node, at);
      return cut === undefined ? [] : read(cut);
    });
  }
}

/** A damaged index can lead in a circle. */
function outOfOrder(path: ThreadPath): ThreadlogError {
  return new ThreadlogError("corrupt", "The index of threads is out of order", {
    place: `thread ${showPath(path)}`,
    remedy: "Run verify() for the full extent, and restore from a backup.",
  });
}

/** How many bytes of values there are. */
export function bytesOf(requests: readonly { readonly events: readonly PayloadsOf[] }[]): number {
  let bytes = 0;
  for (const { events } of requests) {
    for (const event of events) bytes += (event.value?.length ?? 0) + (event.state?.length ?? 0);
  }
  return bytes;
}
