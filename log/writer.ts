/**
 * The single serialized writer: appends queue, each drain of the queue is one transaction (group commit), and promises
 * resolve in order once it is as durable as asked.
 *
 * @module
 */

import { setImmediate as nextTurn } from "node:timers/promises";
import type { AppendOutcome, AppendRequest, Backend, StoredEvent } from "./backend.ts";
import { closedError, ConflictError, OutcomeUnknownError, ThreadlogError } from "./errors.ts";
import { showPath, type ThreadPath } from "./ids.ts";

/** Something to append. */
export interface Intent {
  /** The threads that it touches. */
  readonly paths: readonly ThreadPath[];
  /** Bytes that it holds while it waits. */
  readonly bytes: number;
  /**
   * Its request; where that depends on the state it is made just before the transaction, and made anew if another
   * process appended to the thread in between.
   */
  readonly request: AppendRequest | (() => Promise<AppendRequest>);
  /** Decides whether events that were found under the request's ids are the same; throws if not. */
  readonly settle: (
    request: AppendRequest,
    found: readonly (StoredEvent | undefined)[],
  ) => Promise<readonly StoredEvent[]>;
}

/** What the writer needs from above. */
export interface WriterHooks {
  /** Folds events that are durable into the projections. They follow each other without gaps. */
  readonly apply: (events: readonly StoredEvent[]) => Promise<void> | void;
  /** Brings the projections up to a position that others have written. */
  readonly catchUp: (position: number) => Promise<void>;
}

/** How much may wait. */
export interface WriterLimits {
  readonly maxQueue: number;
  readonly maxQueueBytes: number;
}

/** One transaction takes at most this much, so that its commit stays within a millisecond or two. */
const MAX_BATCH = 256;
const MAX_BATCH_BYTES = 1 << 20;
/** The event loop gets a turn at least this often, in milliseconds. */
const MAX_TURN_MS = 1;
/** How often an update is made anew before it is given up as a conflict. */
const MAX_TRIES = 32;

interface Waiting extends Intent {
  readonly resolve: (events: readonly StoredEvent[]) => void;
  readonly reject: (error: unknown) => void;
  tries: number;
}

/** Something to do between two transactions. */
type Job = () => Promise<void>;

/** Orders the appends of one log. */
export class Writer {
  readonly #backend: Backend;
  readonly #hooks: WriterHooks;
  readonly #limits: WriterLimits;
  #queue: Waiting[] = [];
  #queuedBytes = 0;
  readonly #unsettled = new Set<Promise<unknown>>();
  #jobs: Job[] = [];
  #nextRefresh: Promise<void> | undefined;
  #running: Promise<void> | undefined;
  #turnStart = 0;
  #closed = false;

  constructor(backend: Backend, hooks: WriterHooks, limits: WriterLimits) {
    this.#backend = backend;
    this.#hooks = hooks;
    this.#limits = limits;
  }

  /** How many appends are waiting. */
  get queued(): number {
    return this.#queue.length;
  }

  /** Queues an append; resolves with its events once they are durable. */
  submit(intent: Intent): Promise<readonly StoredEvent[]> {
    if (this.#closed) return Promise.reject(closedError());
    if (this.#queue.length >= this.#limits.maxQueue || this.#queuedBytes >= this.#limits.maxQueueBytes) {
      return Promise.reject(
        new ThreadlogError("queue_full", `${this.#queue.length} appends of ${this.#queuedBytes} bytes are waiting`, {
          place: "queue",
          remedy: "Await earlier appends, or flush(), before making more; this one was not written.",
        }),
      );
    }
    this.#queuedBytes += intent.bytes;
    const settled = new Promise<readonly StoredEvent[]>((resolve, reject) => {
      this.#queue.push({ ...intent, resolve, reject, tries: 0 });
      this.#start();
    });
    this.#unsettled.add(settled);
    const done = () => void this.#unsettled.delete(settled);
    settled.then(done, done);
    return settled;
  }

  /** Resolves when everything that others made durable before the call is in the projections. */
  refresh(): Promise<void> {
    // One look serves all who asked before it began.
    if (this.#nextRefresh === undefined) {
      const refresh = this.exclusively(() => {
        this.#nextRefresh = undefined;
        return this.#catchUp();
      });
      this.#nextRefresh = refresh;
    }
    return this.#nextRefresh;
  }

  /** Does something between two transactions, with no append of this log under way. */
  exclusively(work: () => Promise<void>): Promise<void> {
    if (this.#closed) return Promise.reject(closedError());
    return new Promise((resolve, reject) => {
      this.#jobs.push(() => work().then(resolve, reject));
      this.#start();
    });
  }

  /** Resolves when everything that was queued before the call has been settled. */
  async flush(): Promise<void> {
    await Promise.allSettled(this.#unsettled);
  }

  /** Refuses new appends and settles those that wait. */
  async close(): Promise<void> {
    this.#closed = true;
    while (this.#running !== undefined) await this.#running;
  }

  #start(): void {
    // Begun in a microtask of its own: everything that this turn appends goes into the first transaction.
    this.#running ??= Promise.resolve().then(() => this.#run()).finally(() => {
      this.#running = undefined;
      if (this.#queue.length > 0 || this.#jobs.length > 0) this.#start();
    });
  }

  async #run(): Promise<void> {
    if (performance.now() - this.#turnStart > MAX_TURN_MS) await this.#yield();
    while (this.#queue.length > 0 || this.#jobs.length > 0) {
      for (const job of this.#jobs.splice(0)) await job();
      const batch = await this.#gather();
      if (batch.length > 0) await this.#append(batch);
      // Whoever was just answered may append again in the same turn: let them, then see.
      await Promise.resolve();
      if (performance.now() - this.#turnStart > MAX_TURN_MS) await this.#yield();
    }
  }

  /** Removes what was erased before anybody is told, a piece at a time. */
  async #purge(): Promise<void> {
    while (await this.#backend.purge()) await this.#yield();
  }

  async #yield(): Promise<void> {
    await nextTurn();
    this.#turnStart = performance.now();
  }

  async #catchUp(): Promise<void> {
    const head = await this.#backend.head();
    await this.#hooks.catchUp(head.position);
  }

  /** Takes from the front of the queue what fits into one transaction, and makes the requests that depend on state. */
  async #gather(): Promise<[Waiting, AppendRequest][]> {
    const batch: [Waiting, AppendRequest][] = [];
    const touched = new Set<ThreadPath>();
    const planned = new Set<ThreadPath>();
    let bytes = 0;
    let taken = 0;
    for (const waiting of this.#queue) {
      const { request, paths } = waiting;
      if (taken > 0 && (taken >= MAX_BATCH || bytes + waiting.bytes > MAX_BATCH_BYTES)) break;
      // What depends on state must see what is before it in the queue, and, as it may have to be made anew, be settled
      // before what comes after it.
      if (paths.some((path) => planned.has(path))) break;
      if (typeof request === "function" && paths.some((path) => touched.has(path))) break;
      taken++;
      bytes += waiting.bytes;
      for (const path of paths) {
        touched.add(path);
        if (typeof request === "function") planned.add(path);
      }
      if (typeof request !== "function") {
        batch.push([waiting, request]);
        continue;
      }
      try {
        // A conflict would show what others have written; that a key is missing would not.
        if (this.#backend.changed()) await this.#catchUp();
        batch.push([waiting, await this.#planned(request)]);
      } catch (error) {
        waiting.reject(error);
      }
    }
    for (const { bytes } of this.#queue.splice(0, taken)) this.#queuedBytes -= bytes;
    return batch;
  }

  /** A request as of the state now; again, if others may have erased or made what it is made from. */
  async #planned(request: () => Promise<AppendRequest>): Promise<AppendRequest> {
    try {
      return await request();
    } catch (error) {
      if (!(error instanceof ThreadlogError && ["erased", "not_found"].includes(error.code))) throw error;
      await this.#catchUp();
      return await request();
    }
  }

  async #append(gathered: readonly [Waiting, AppendRequest][]): Promise<void> {
    let outcomes: readonly AppendOutcome[];
    try {
      outcomes = await this.#backend.append(gathered.map(([, request]) => request));
    } catch (error) {
      for (const [waiting, request] of gathered) waiting.reject(withIds(error, request));
      return;
    }
    const batch = gathered.slice(0, outcomes.length);
    this.#putBack(gathered.slice(outcomes.length).map(([waiting]) => waiting));
    const appended: StoredEvent[] = [];
    const answers: (() => void)[] = [];
    const again: Waiting[] = [];
    let stale = false;
    let unremoved: ThreadlogError | undefined;
    outcomes.forEach((outcome, index) => {
      const [waiting, request] = batch[index]!;
      if (outcome.kind === "appended") {
        const events = request.events.map(({ digest: _digest, origin: _origin, ...event }, i): StoredEvent => ({
          ...event,
          ...outcome.placements[i]!,
        }));
        appended.push(...events);
        answers.push(() => {
          if (unremoved !== undefined && events.some(isErasure)) waiting.reject(unremoved);
          else waiting.resolve(events);
        });
        return;
      }
      stale = true;
      if (outcome.kind === "conflict" && typeof waiting.request === "function" && waiting.tries++ < MAX_TRIES) {
        again.push(waiting);
      } else {
        answers.push(() => refuse(waiting, request, outcome));
      }
    });
    try {
      if (appended.length > 0) await this.#hooks.apply(appended);
    } catch (error) {
      // What was accepted is kept, but not yet seen here.
      for (const [waiting, request] of batch) waiting.reject(new OutcomeUnknownError(idsOf(request), error));
      return;
    }
    if (appended.some(isErasure)) {
      try {
        await this.#purge();
      } catch (error) {
        // That is told to whoever erased; what else was in the transaction is kept all the same.
        unremoved = unpurged(error);
      }
    }
    // Somebody else may have been quicker: whoever reads and tries again must see what they wrote.
    // (If that fails, they will meet the failure themselves.)
    if (stale) await this.#catchUp().catch(() => {});
    for (const answer of answers) answer();
    this.#putBack(again);
  }

  /** What is to be in the next transaction goes to the front of the queue. */
  #putBack(waiting: readonly Waiting[]): void {
    for (const { bytes } of waiting) this.#queuedBytes += bytes;
    this.#queue.unshift(...waiting);
  }
}

function refuse(waiting: Waiting, request: AppendRequest, outcome: Exclude<AppendOutcome, { kind: "appended" }>): void {
  switch (outcome.kind) {
    case "conflict":
      return waiting.reject(new ConflictError(showPath(outcome.path), outcome.expected, outcome.actual));
    case "no_origin":
      return waiting.reject(
        new ThreadlogError(
          outcome.erased ? "erased" : "not_found",
          `Thread ${showPath(outcome.path)} has no version ${outcome.version}${outcome.erased ? " any more" : ""}`,
          { place: `thread ${showPath(outcome.path)}`, remedy: "Choose a version between its first and its head." },
        ),
      );
    case "duplicate":
      waiting.settle(request, outcome.found).then(waiting.resolve, waiting.reject);
  }
}

function isErasure({ type }: StoredEvent): boolean {
  return type === "erase";
}

function unpurged(cause: unknown): ThreadlogError {
  const what = cause instanceof ThreadlogError ? `: ${cause.message}` : "";
  return new ThreadlogError("storage", `It is erased, but could not be removed from the file yet${what}`, {
    remedy: "Nobody can read it any more. Once there is space again, call compact(), which removes it.",
    cause,
  });
}

function withIds(error: unknown, request: AppendRequest): unknown {
  return error instanceof OutcomeUnknownError ? new OutcomeUnknownError(idsOf(request), error.cause) : error;
}

function idsOf({ events }: AppendRequest): string[] {
  return events.flatMap(({ id }) => id ?? []);
}
