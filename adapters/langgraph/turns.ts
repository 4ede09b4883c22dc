/**
 * Writes to one thread are handed to the log in the order of the calls, although each must first be encoded and may
 * have something to read. They are not held up until the ones before them are durable: one commit serves them all.
 *
 * @module
 */

import type { MaybePromise } from "../../projections/keyspace.ts";

/** A write that has been handed over; it settles when it is durable. */
export interface Handed<Result> {
  readonly result: Promise<Result>;
}

/** Keeps the order of calls, per name. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  /**
   * Runs `hand` on what was prepared, when all earlier turns of the name have handed over: at once, if there are none.
   * Resolves when what it handed is done.
   */
  async take<Prepared, Result>(
    name: string,
    prepared: MaybePromise<Prepared>,
    hand: (prepared: Prepared) => MaybePromise<Handed<Result>>,
  ): Promise<Result> {
    const before = this.#last.get(name);
    const isReady = before === undefined && !(prepared instanceof Promise);
    const turn = isReady ? hand(prepared) : Promise.all([prepared, before]).then(([it]) => hand(it));
    if (!(turn instanceof Promise)) return await turn.result;
    const settled = turn.then(noop, noop);
    this.#last.set(name, settled);
    try {
      const { result } = await turn;
      return await result;
    } finally {
      if (this.#last.get(name) === settled) this.#last.delete(name);
    }
  }
}

function noop(): void {}
