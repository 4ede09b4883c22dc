/**
 * Projections of an app's own: pure folds of events into state, saved so that opening a log does not replay it.
 *
 * @module
 */

import type { SavedState, StoredEvent } from "../log/backend.ts";
import { takeOptions } from "../log/arguments.ts";
import { invalid, ThreadlogError } from "../log/errors.ts";
import type { Event } from "../log/event.ts";
import { freeze } from "../log/freeze.ts";
import type { ThreadId } from "../log/ids.ts";
import { parseKey } from "../log/ids.ts";
import type { Position } from "../log/position.ts";
import { parseFilter } from "../log/subscription.ts";
import { type Filter, passes } from "../log/waiters.ts";

/**
 * How to fold events into a state.
 *
 * @example
 * ```ts
 * import { defineProjection, openLog } from "threadlog";
 *
 * const spending = defineProjection({
 *   name: "spending",
 *   version: 1,
 *   types: ["model.called"],
 *   initial: () => ({ dollars: 0 }),
 *   evolve: (state, event) => ({ dollars: state.dollars + (event.value as { cost: number }).cost }),
 * });
 *
 * await using log = await openLog(":memory:");
 * const total = await log.project(spending);
 * await log.thread("a").append("model.called", { cost: 2 });
 * console.log(await total.state()); // { dollars: 2 }
 * ```
 */
export interface ProjectionDefinition<State> {
  /** Its name in the log: saved states are kept under it. */
  readonly name: string;
  /** A whole number to raise whenever `evolve` changes its meaning: the state is then rebuilt. */
  readonly version: number;
  /** The state before the first event. */
  readonly initial: () => State;
  /** The state after one more event: pure, and a new value rather than a changed one. */
  readonly evolve: (state: State, event: Event) => State;
  /**
   * `"inline"` (the default) folds an event before its append resolves; `"behind"` folds it soon after, so that a slow
   * fold holds nobody up.
   */
  readonly mode?: "inline" | "behind";
  /** Only events of threads below this path. */
  readonly prefix?: ThreadId | readonly [];
  /** Only events of these types; a tombstone (`"erase"`) always rebuilds. */
  readonly types?: readonly string[];
  /** Saves the state each time this many events have been folded, and when the log closes. Default 1,000. */
  readonly saveEvery?: number;
}

const FIELDS = ["name", "version", "initial", "evolve", "mode", "prefix", "types", "saveEvery"] as const;

/** Checks a projection's definition. It does nothing else: pass the result to `log.project`. */
export function defineProjection<State>(definition: ProjectionDefinition<State>): ProjectionDefinition<State> {
  const given = takeOptions(definition, FIELDS, "projection");
  const { name, version, initial, evolve, mode, saveEvery } = given;
  parseKey(name, "projection name");
  const place = `projection ${JSON.stringify(name)}`;
  if (!Number.isSafeInteger(version) || version < 1) {
    throw invalid("A projection's version must be a whole number >= 1", place, "Begin with 1.");
  }
  if (typeof initial !== "function" || typeof evolve !== "function") {
    throw invalid("A projection needs the functions `initial` and `evolve`", place, "Pass both.");
  }
  if (mode !== undefined && mode !== "inline" && mode !== "behind") {
    throw invalid('A projection\'s mode must be "inline" or "behind"', place, "Leave it out for inline.");
  }
  if (saveEvery !== undefined && (!Number.isSafeInteger(saveEvery) || saveEvery < 1)) {
    throw invalid("`saveEvery` must be a whole number >= 1", place, "Leave it out for 1,000.");
  }
  parseFilter(given);
  return definition;
}

/** What a fold needs from the log. */
export interface ProjectionStore {
  load(name: string): Promise<SavedState | undefined>;
  save(name: string, saved: SavedState): Promise<void>;
  encode(value: unknown): Uint8Array;
  decode(bytes: Uint8Array): unknown;
  event(stored: StoredEvent): Event;
}

/** One projection's state as it is folded. */
export class Fold<State> {
  readonly definition: ProjectionDefinition<State>;
  readonly #store: ProjectionStore;
  readonly #filter: Filter;
  #state: State;
  #isFrozen = false;
  #position: Position = 0;
  #unsaved = 0;
  #failure: ThreadlogError | undefined;

  constructor(definition: ProjectionDefinition<State>, store: ProjectionStore) {
    this.definition = definition;
    this.#store = store;
    this.#filter = parseFilter(definition);
    this.#state = this.#begin();
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** The state, and the position it stands for. */
  get current(): { readonly state: State; readonly position: Position } {
    if (this.#failure !== undefined) throw this.#failure;
    // What can't be frozen is copied, so that it is the reader's own.
    const state = this.#isFrozen ? this.#state : this.#store.decode(this.#encoded()) as State;
    return { state, position: this.#position };
  }

  /** The last position that was folded. */
  get position(): Position {
    return this.#position;
  }

  /** Starts from the saved state; from the beginning where there is none of this version, or it can't be read. */
  async restore(head: Position): Promise<void> {
    const { name, version } = this.definition;
    try {
      const saved = await this.#store.load(name);
      if (saved === undefined || saved.version !== version || saved.position > head) return;
      this.#state = this.#checked(this.#store.decode(saved.state) as State);
      this.#position = saved.position;
    } catch {
      // Only a cache: replay gives the same.
    }
  }

  /** Folds one event in. True if the fold must begin anew: what it has seen was erased. */
  fold(stored: StoredEvent): boolean {
    if (stored.position <= this.#position) return false;
    this.#position = stored.position;
    if (stored.type === "erase") return true;
    if (!passes(this.#filter, stored) || this.#failure !== undefined) return false;
    try {
      const { evolve } = this.definition;
      this.#state = this.#checked(evolve(this.#state, this.#store.event(stored)));
    } catch (cause) {
      this.#threw("evolve", `position ${stored.position}`, cause);
    }
    this.#unsaved++;
    return false;
  }

  /** Notes that everything up to a position has been seen. */
  reached(position: Position): void {
    if (position > this.#position) this.#position = position;
  }

  /** Notes that the log could not be read: whoever asks for the state is told. */
  fail(cause: unknown): void {
    this.#failure ??= new ThreadlogError(
      cause instanceof ThreadlogError ? cause.code : "storage",
      `The projection ${JSON.stringify(this.definition.name)} stopped: ${(cause as Error)?.message}`,
      { place: `position ${this.#position}`, remedy: "See the cause, then begin it again with project().", cause },
    );
  }

  /** Begins anew. */
  reset(): void {
    this.#failure = undefined;
    this.#state = this.#begin();
    this.#position = 0;
    this.#unsaved = 0;
  }

  #begin(): State {
    try {
      return this.#checked(this.definition.initial());
    } catch (cause) {
      this.#threw("initial", "its beginning", cause);
      return undefined as State;
    }
  }

  /** Frozen where it can be: neither readers nor the next `evolve` may change it. */
  #checked(state: State): State {
    if (typeof (state as { then?: unknown } | null | undefined)?.then === "function") {
      throw new TypeError("it returned a promise: a fold is synchronous");
    }
    this.#isFrozen = freeze(state);
    return state;
  }

  #threw(what: "initial" | "evolve", place: string, cause: unknown): void {
    const name = JSON.stringify(this.definition.name);
    this.#failure = new ThreadlogError("schema", `The projection ${name} threw in \`${what}\``, {
      place: `projection ${name}, ${place}`,
      remedy: `Correct \`${what}\` and raise the projection's version; the log itself is fine.`,
      cause,
    });
  }

  /** Whether enough has been folded to be worth saving. */
  get isSaveDue(): boolean {
    return this.#unsaved >= (this.definition.saveEvery ?? 1000);
  }

  /** Saves the state, if there is anything new in it. */
  async save(): Promise<void> {
    if (this.#unsaved === 0 || this.#failure !== undefined) return;
    this.#unsaved = 0;
    const { name, version } = this.definition;
    await this.#store.save(name, { version, position: this.#position, state: this.#encoded() });
  }

  #encoded(): Uint8Array {
    try {
      return this.#store.encode(this.#state);
    } catch (cause) {
      this.#failure = new ThreadlogError(
        cause instanceof ThreadlogError ? cause.code : "unencodable",
        `The state of the projection ${JSON.stringify(this.definition.name)} can't be saved`,
        { place: `position ${this.#position}`, remedy: "Keep in it only what the log's codec can store.", cause },
      );
      throw this.#failure;
    }
  }
}
