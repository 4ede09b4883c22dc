/**
 * Holds what a backend keeps beside the events against them: threads, indexes, latest-pointers, and where the state of a
 * fork or a restore continues from. No hash covers these; but all of it follows from the events.
 *
 * @module
 */

import type { Backend, ReadPoint, StoredEvent, ThreadRecord } from "./backend.ts";
import { compareNames, parseThreadId, type ThreadId, type ThreadPath } from "./ids.ts";
import type { Position, Version } from "./position.ts";

/** Told of what does not fit. */
export type Complain = (event: { position: Position; path: ThreadPath; version: Version }, reason: string) => void;

/** Threads, events or entries fetched at a time. */
const PAGE = 256;
const EVER: ReadPoint = { position: Number.MAX_SAFE_INTEGER };

/** Asks the backend for everything in another way than by position. */
export async function crossCheck(
  backend: Backend,
  valueOf: (event: StoredEvent) => unknown,
  complain: Complain,
): Promise<void> {
  for (let after: ThreadPath | undefined;;) {
    const range = { prefix: "" as const, after, limit: PAGE, at: Number.MAX_SAFE_INTEGER };
    const page = await backend.threads(range);
    for (const thread of page) {
      // A damaged index may lead round in circles.
      if (after !== undefined && compareNames(after, thread.path) >= 0) {
        return complain(thread, "The threads are not in the order of their names");
      }
      after = thread.path;
      try {
        await new ThreadCheck(backend, valueOf, complain, thread).run();
      } catch (error) {
        complain(thread, `Something of its thread can't be read: ${(error as Error).message}`);
      }
    }
    if (page.length < PAGE) return;
  }
}

class ThreadCheck {
  readonly #backend: Backend;
  readonly #valueOf: (event: StoredEvent) => unknown;
  readonly #complain: Complain;
  readonly #thread: ThreadRecord;

  constructor(
    backend: Backend,
    valueOf: (event: StoredEvent) => unknown,
    complain: Complain,
    thread: ThreadRecord,
  ) {
    this.#backend = backend;
    this.#valueOf = valueOf;
    this.#complain = complain;
    this.#thread = thread;
  }

  async run(): Promise<void> {
    const { path, version: head, position, erased, parent, created } = this.#thread;
    await this.#checkBeginning();
    const first = Math.max(erased, parent?.version ?? 0) + 1;
    let before = first === 1 ? undefined : await this.#at(path, first - 1).catch(() => undefined);
    let expected = first;
    let last: StoredEvent | undefined;
    for (let from = first; from <= head;) {
      const page = await this.#backend.history(path, { from, to: head, limit: PAGE, reverse: false });
      for (const event of page) {
        if (event.version !== expected || event.path !== path || event.position <= (last?.position ?? 0)) {
          return this.#complain(event, `The index of versions has it as version ${expected} of another place`);
        }
        await this.#event(event, before);
        before = last = event;
        expected++;
      }
      if (page.length < PAGE) break;
      from = expected;
    }
    if (expected !== head + 1 || last?.position !== position) {
      return this.#complain(this.#thread, `Its thread seems to end at version ${expected - 1}`);
    }
    const asOf = await this.#backend.thread(path, { position: created });
    if (erased < first - 1 || erased === 0) {
      if (asOf?.version !== first) {
        this.#complain(this.#thread, "Its thread does not begin where the table of threads says");
      }
    }
    await this.#listing();
  }

  /** The first event that is left: version 1, a fork's, or a tombstone. */
  async #checkBeginning(): Promise<void> {
    const { path, erased, parent, created } = this.#thread;
    if (erased > 0) {
      const tombstone = await this.#at(path, erased + 1);
      if (tombstone?.type !== "erase") this.#complain(this.#thread, `Version ${erased} of its thread was never erased`);
      if (erased > (parent?.version ?? 0)) return;
    }
    const [first] = await this.#backend.read({ after: created - 1, to: created, limit: 1 });
    const wanted = (parent?.version ?? 0) + 1;
    if (first?.path !== path || first.version !== wanted || (parent !== undefined && first.type !== "fork")) {
      this.#complain(this.#thread, "Its thread does not begin where the table of threads says");
    }
  }

  async #event(event: StoredEvent, before: StoredEvent | undefined): Promise<void> {
    const { path, version, position, key, id, type } = event;
    if (id !== undefined && (await this.#backend.byId(path, id))?.position !== position) {
      this.#complain(event, "The index of ids does not lead to it");
    }
    if (key !== undefined) {
      const [newest] = await this.#backend.entry(path, key, { version });
      if (newest?.position !== (type === "delete" ? undefined : position)) {
        this.#complain(event, "The index of keys does not lead to it");
      }
    }
    const origin = type === "fork" || type === "restore" ? this.#originOf(event) : undefined;
    if (event.latest !== await this.#latestOf(event, before, origin)) {
      this.#complain(event, "The newest entry of its thread is not what it says");
    }
    if (origin !== undefined && !await this.#sameState(event, origin)) {
      this.#complain(event, "The state of its thread does not continue from where it says");
    }
  }

  #originOf(event: StoredEvent): { path: ThreadPath; version: Version } {
    const { parent, version } = this.#valueOf(event) as { parent?: ThreadId; version: Version };
    return { path: parent === undefined ? event.path : parseThreadId(parent), version };
  }

  async #latestOf(
    event: StoredEvent,
    before: StoredEvent | undefined,
    origin: { path: ThreadPath; version: Version } | undefined,
  ): Promise<Position | undefined> {
    const { type, position, path, version, key } = event;
    if (type === "set" || type === "patch") return position;
    if (type === "erase") return 0;
    if (origin !== undefined) {
      if (origin.version === 0) return 0;
      // What was forked may have been erased since; the fork still has it.
      return (await this.#at(path, type === "fork" ? version - 1 : origin.version))?.latest;
    }
    const known = before?.latest ?? 0;
    if (type !== "delete" || known === 0) return known;
    const [entry] = await this.#backend.read({ after: known - 1, to: known, limit: 1 });
    if (entry?.key !== key) return known;
    let latest = 0;
    for await (const { position } of this.#entries(path, { version })) latest = Math.max(latest, position);
    return latest;
  }

  /** Whether a fork or a restore begins with the entries of what it continues from: as far as a page shows. */
  async #sameState(event: StoredEvent, origin: { path: ThreadPath; version: Version }): Promise<boolean> {
    const range = { prefix: "", after: undefined, limit: PAGE, reverse: false };
    const found = await this.#backend.entries(event.path, { version: event.version }, range);
    if (origin.version === 0) return found.length === 0;
    const from = event.type === "fork" ? { path: event.path, version: event.version - 1 } : origin;
    if (from.version <= this.#thread.erased) return true;
    const wanted = await this.#backend.entries(from.path, { version: from.version }, range);
    return found.length === wanted.length && found.every((chain, i) => chain[0]!.position === wanted[i]![0]!.position);
  }

  /** Whether the keys are listed in their order, each once, as what they lead to has them. */
  async #listing(): Promise<void> {
    let before: string | undefined;
    for await (const event of this.#entries(this.#thread.path, EVER)) {
      if (before !== undefined && compareNames(before, event.key!) >= 0) {
        return this.#complain(event, "The index of keys has it under another key");
      }
      before = event.key;
    }
  }

  async *#entries(path: ThreadPath, at: ReadPoint): AsyncGenerator<StoredEvent> {
    let after: string | undefined;
    while (true) {
      const page = await this.#backend.entries(path, at, { prefix: "", after, limit: PAGE, reverse: false });
      for (const chain of page) yield chain[0]!;
      if (page.length < PAGE) return;
      const { key } = page.at(-1)![0]!;
      if (after !== undefined && compareNames(after, key!) >= 0) return; // listed above
      after = key;
    }
  }

  async #at(path: ThreadPath, version: Version): Promise<StoredEvent | undefined> {
    const [event] = await this.#backend.history(path, { from: version, to: version, limit: 1, reverse: false });
    return event;
  }
}
