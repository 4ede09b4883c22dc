/**
 * Holds every event against the hash chain of its thread.
 *
 * @module
 */

import type { Backend, StoredEvent } from "./backend.ts";
import { crossCheck } from "./cross_check.ts";
import { digestOf, FIRST_LINK, linkOf, sameBytes } from "./digest.ts";
import { type ThreadId, threadIdOf, type ThreadPath } from "./ids.ts";
import type { Position, Version } from "./position.ts";

/** An event that does not fit. */
export interface Fault {
  /** Its position; for something missing, the next that is there. */
  readonly position: Position;
  /** Its thread, where that can be told. */
  readonly thread: ThreadId | undefined;
  /** Its version, where that can be told. */
  readonly version: Version | undefined;
  /** What is wrong, as a sentence. */
  readonly reason: string;
}

/** What `verify` found. */
export interface VerifyReport {
  /** Whether everything fits. */
  readonly ok: boolean;
  /** How many events were checked. */
  readonly events: number;
  /** The last position that was checked. */
  readonly position: Position;
  /** How many faults there are. */
  readonly faults: number;
  /** The fault with the lowest position. */
  readonly first: Fault | undefined;
}

interface Link {
  readonly version: Version;
  readonly link: Uint8Array;
}

/** Events fetched at a time. */
const PAGE = 256;
/** How many threads' links are remembered; others are looked up again. */
const MAX_LINKS = 50_000;

/**
 * Checks a log up to a position. `valueOf` decodes the value of a fork or a restore.
 */
export async function verify(
  backend: Backend,
  head: Position,
  valueOf: (event: StoredEvent) => unknown,
): Promise<VerifyReport> {
  const check = new Check(backend);
  await check.run(head);
  // Only here are the indexes the library's own, and only here does a look cost no round trip.
  if (backend.kind === "sqlite") await check.cross(valueOf);
  return check.report(head);
}

class Check {
  readonly #backend: Backend;
  readonly #links = new Map<ThreadPath, Link>();
  #events = 0;
  #faults = 0;
  #first: Fault | undefined;

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  async run(head: Position): Promise<void> {
    for (let after = 0; after < head;) {
      let page: readonly StoredEvent[];
      try {
        page = await this.#backend.read({ after, to: head, limit: PAGE });
      } catch {
        // One damaged row spoils the page: find it alone.
        after = await this.#step(after, head);
        continue;
      }
      for (const event of page) await this.#event(event);
      after = page.length < PAGE ? head : page.at(-1)!.position;
    }
    for (const reason of await this.#backend.integrity()) this.#fault(head, undefined, undefined, reason);
    const { erased, purging } = await this.#backend.stats();
    const missing = head - erased - this.#events;
    // What is about to be removed can't be read any more, and is not counted as erased yet.
    if (missing > 0 && !purging && this.#faults === 0) {
      this.#fault(head, undefined, undefined, `${missing} events that should be there are missing`);
    }
  }

  async cross(valueOf: (event: StoredEvent) => unknown): Promise<void> {
    // On an index that the engine itself finds damaged, looking things up may lead anywhere.
    if (this.#faults > 0) return;
    try {
      await crossCheck(this.#backend, valueOf, ({ position, path, version }, reason) => {
        this.#fault(position, path, version, reason);
      });
    } catch (error) {
      this.#fault(
        Number.MAX_SAFE_INTEGER,
        undefined,
        undefined,
        `The threads can't be listed: ${(error as Error).message}`,
      );
    }
  }

  report(position: Position): VerifyReport {
    const first = this.#first;
    return Object.freeze({ ok: first === undefined, events: this.#events, position, faults: this.#faults, first });
  }

  async #step(after: Position, head: Position): Promise<Position> {
    const position = after + 1;
    try {
      const page = await this.#backend.read({ after, to: position, limit: 1 });
      for (const event of page) await this.#event(event);
    } catch (error) {
      this.#fault(position, undefined, undefined, `The event can't be read: ${(error as Error).message}`);
    }
    return Math.min(position, head);
  }

  async #event(event: StoredEvent): Promise<void> {
    this.#events++;
    const previous = await this.#previous(event);
    const expected = previous === undefined ? event.version : previous.version + 1;
    if (event.version !== expected && !await this.#wasErased(event)) {
      this.#fault(event.position, event.path, event.version, `Version ${expected} of the thread is missing before it`);
    } else if (previous !== undefined) {
      const link = linkOf(previous.link, digestOf(event), event.position, event.version, event.time);
      if (!sameBytes(link, event.link)) {
        this.#fault(event.position, event.path, event.version, "Its content does not fit the thread's hash chain");
      }
    }
    if (this.#links.size >= MAX_LINKS) this.#links.clear();
    this.#links.set(event.path, { version: event.version, link: event.link });
  }

  /** Whether a gap before an event is what its tombstone says. */
  async #wasErased(event: StoredEvent): Promise<boolean> {
    return event.type === "erase" && await this.#isErasedBefore(event);
  }

  async #isErasedBefore(event: StoredEvent): Promise<boolean> {
    const thread = await this.#backend.thread(event.path, { position: Number.MAX_SAFE_INTEGER });
    return thread !== undefined && thread.erased >= event.version - 1;
  }

  /**
   * The event before in the thread, or in the one that it was forked from. A tombstone begins a chain of its own. Of an
   * erased fork, of which another fork keeps a part, what it inherited can't be asked for: undefined.
   */
  async #previous(event: StoredEvent): Promise<Link | undefined> {
    const known = this.#links.get(event.path);
    if (known !== undefined) return event.type === "erase" ? { ...known, link: FIRST_LINK } : known;
    if (event.version === 1 || event.type === "erase") return { version: 0, link: FIRST_LINK };
    const [before] = await this.#backend.history(event.path, {
      from: 1,
      to: event.version - 1,
      limit: 1,
      reverse: true,
    });
    if (before === undefined && event.type === "fork" && await this.#isErasedBefore(event)) return undefined;
    return before ?? { version: 0, link: FIRST_LINK };
  }

  #fault(position: Position, path: ThreadPath | undefined, version: Version | undefined, reason: string): void {
    this.#faults++;
    if (this.#first !== undefined && this.#first.position <= position) return;
    this.#first = Object.freeze({
      position,
      thread: path === undefined ? undefined : threadIdOf(path),
      version,
      reason,
    });
  }
}
