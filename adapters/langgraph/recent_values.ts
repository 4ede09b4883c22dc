/**
 * What was put or read lately, in memory: by its place in the log, where it never changes.
 *
 * @module
 */

/** How much is kept of one saver, in bytes of its encoded form. */
const BUDGET = 8 << 20;

/** Keeps the values that were used last. Whoever gets one changes nothing of it. */
export class RecentValues {
  #young = new Map<string, readonly [value: unknown, bytes: number]>();
  #old = new Map<string, readonly [value: unknown, bytes: number]>();
  /** Bytes of the young half. */
  #bytes = 0;

  /** A value by its name, which tells its position. */
  get(name: string): unknown {
    const young = this.#young.get(name);
    if (young !== undefined) return young[0];
    const old = this.#old.get(name);
    if (old !== undefined) this.set(name, ...old);
    return old?.[0];
  }

  /** Keeps a value that takes about so many bytes. */
  set(name: string, value: unknown, bytes: number): void {
    if (bytes > BUDGET / 8) return;
    this.#young.set(name, [value, bytes]);
    this.#bytes += bytes + 128;
    // Half of the budget each: what has not been used while the young half filled up goes.
    if (this.#bytes <= BUDGET / 2) return;
    this.#old = this.#young;
    this.#young = new Map();
    this.#bytes = 0;
  }

  /** Forgets everything. */
  clear(): void {
    this.#young.clear();
    this.#old.clear();
    this.#bytes = 0;
  }
}
