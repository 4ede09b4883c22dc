/**
 * Writes to one thread are handed to the log in the order of the calls, although each must first be encoded and may
 * have something to read. They are not held up until the ones before them are durable: one commit serves them all.
 *
 * @module
 */

/** A write that has been handed over; it settles when it is durable. */
export interface Handed<Result> {
  readonly result: Promise<Result>;
}

/** Keeps the order of calls, per name. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  /**
   * Runs `hand` on what was prepared, when all earlier turns of the name have handed over; resolves when what it
   * handed is done.
   */
  async take<Prepared, Result>(
    name: string,
    prepared: Promise<Prepared>,
    hand: (prepared: Prepared) => Promise<Handed<Result>>,
  ): Promise<Result> {
    const before = this.#last.get(name);
    const turn = before === undefined ? prepared.then(hand) : Promise.all([prepared, before]).then(([it]) => hand(it));
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
