/**
 * Writes to several threads, together or not at all.
 *
 * @module
 */

import { disown, isThenable, takeOptions } from "./arguments.ts";
import type { EventInput, Expectation } from "./backend.ts";
import type { Core } from "./core.ts";
import { invalid } from "./errors.ts";
import type { Event, Immutable } from "./event.ts";
import { parseThreadId, type ThreadId, type ThreadPath } from "./ids.ts";
import type { Recipe } from "./recipe.ts";
import { planSteps, type Step } from "./updates.ts";
import {
  appInput,
  deleteInput,
  parseExpect,
  pendingUpdate,
  setInput,
  UPDATE_OPTIONS,
  type UpdateOptions,
  WRITE_OPTIONS,
  type WriteOptions,
} from "./writes.ts";
import type { AnyState, KeyOf } from "./view.ts";

/** The most events in a batch: what one transaction can hold without stopping others for long. */
const MAX_EVENTS = 10_000;

/** A thread inside a batch: the same writes, which take effect with the batch. */
export interface BatchThread<State = AnyState> {
  /** Sets a key. */
  put<Key extends KeyOf<State>>(key: Key, value: State[Key] | Immutable<State[Key]>, options?: WriteOptions): void;
  /** Changes a key's value in part; the recipe sees what the batch wrote before. */
  update<Key extends KeyOf<State>>(
    key: Key,
    recipe: (draft: State[Key]) => State[Key] | Immutable<State[Key]> | void | undefined,
    options?: UpdateOptions<State[Key] | Immutable<State[Key]>>,
  ): void;
  /** Deletes a key. */
  delete(key: KeyOf<State>, options?: WriteOptions): void;
  /** Appends an event of the app's own type. */
  append(type: string, value?: unknown, options?: WriteOptions): void;
}

/** Collects writes. */
export class Batch {
  readonly #core: Core;
  readonly #steps: Step[] = [];
  readonly #ids = new Map<ThreadPath, Set<string>>();
  readonly #expects = new Map<ThreadPath, Expectation>();
  #sealed = false;

  /** Batches are made by `log.batch`. */
  constructor(core: Core) {
    this.#core = core;
  }

  /** A thread to write to. An `expect` speaks of the thread as it was before the batch. */
  thread<State = AnyState>(id: ThreadId): BatchThread<State> {
    const core = this.#core;
    const path = parseThreadId(id);
    const add = (step: Step, { expect }: WriteOptions) => this.#add(path, step, expect);
    return {
      put: (key, value, options = {}) => {
        const given = takeOptions(options, WRITE_OPTIONS);
        add(setInput(core, path, key, value, given), given);
      },
      update: (key, recipe, options = {}) => {
        const given = takeOptions(options, UPDATE_OPTIONS);
        add(pendingUpdate(core, path, key, recipe as Recipe<unknown>, given), given);
      },
      delete: (key, options = {}) => {
        const given = takeOptions(options, WRITE_OPTIONS);
        add(deleteInput(core, path, key, given), given);
      },
      append: (type, value, options = {}) => {
        const given = takeOptions(options, WRITE_OPTIONS);
        add(appInput(core, path, type, value, given), given);
      },
    };
  }

  #add(path: ThreadPath, step: Step, expect: WriteOptions["expect"]): void {
    if (this.#sealed) throw invalid("The batch is over", "batch", "Write before the batch function returns.");
    if (this.#steps.length >= MAX_EVENTS) {
      throw invalid(`A batch holds at most ${MAX_EVENTS} events`, "batch", "Split it.");
    }
    for (const expectation of parseExpect(path, expect)) {
      const earlier = this.#expects.get(path);
      if (earlier !== undefined && earlier.version !== expectation.version) {
        throw invalid("The batch expects two versions of one thread", "expect", "Name the version before the batch.");
      }
      this.#expects.set(path, expectation);
    }
    if (step.id !== undefined) {
      let ids = this.#ids.get(path);
      if (ids === undefined) this.#ids.set(path, ids = new Set());
      if (ids.has(step.id)) {
        throw invalid(`The id ${JSON.stringify(step.id)} is used twice in the batch`, "id", "Give each event its own.");
      }
      ids.add(step.id);
    }
    this.#steps.push(step);
  }

  /** Appends what was collected. */
  async commit(): Promise<Event[]> {
    this.#sealed = true;
    const steps = this.#steps;
    if (steps.length === 0) return [];
    const expects = [...this.#expects.values()];
    if (steps.every(isEncoded)) return await this.#core.append(steps, expects);
    const paths = steps.map(({ path }) => path);
    const request = () => planSteps(this.#core, steps, expects);
    return await this.#core.submit({ request, paths, bytes: 256 * steps.length });
  }
}

function isEncoded(step: Step): step is EventInput {
  return !("recipe" in step);
}

/** Runs the function that fills a batch, and appends it. */
export async function runBatch(core: Core, fill: (batch: Batch) => void): Promise<Event[]> {
  if (typeof fill !== "function") {
    throw invalid("A batch is filled by a function", "batch", 'As in log.batch((b) => b.thread("a").put("k", 1)).');
  }
  const batch = new Batch(core);
  const result: unknown = fill(batch);
  if (isThenable(result, "batch")) {
    disown(result);
    throw invalid(
      "The batch function returned a promise",
      "batch",
      "Fill the batch without awaiting; nothing is kept.",
    );
  }
  return await batch.commit();
}
