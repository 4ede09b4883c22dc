/**
 * Makes commits durable without SQLite's own sync.
 *
 * Commits run at synchronous=NORMAL: SQLite writes frames to the -wal file and syncs nothing until a checkpoint, which
 * orders its own syncs (WAL before database, database before the WAL is reused). A commit is then as durable as one at
 * FULL once the -wal file has been synced behind it. Doing that sync here lets it happen off the event loop where the
 * disk is slow, and uses fdatasync: a recycled WAL does not change size, so no metadata has to be written.
 *
 * A descriptor of the -wal file may be opened and closed freely: SQLite takes no POSIX lock on it.
 *
 * @module
 */

import { close, fdatasync, fdatasyncSync, fsyncSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";

const fdatasyncAsync = promisify(fdatasync);
const closeAsync = promisify(close);

/** Syncs that take longer than this, in milliseconds, leave the event loop's thread. */
const INLINE_LIMIT_MS = 0.5;
/** How much the newest sync counts in the running mean. */
const WEIGHT = 0.2;

/** Syncs one -wal file. */
export class WalSync {
  readonly #path: string;
  readonly #mode: "inline" | "async" | undefined;
  #descriptor: number | undefined;
  /** Running mean of how long a sync takes, in milliseconds. Assumed slow until measured. */
  #mean = INLINE_LIMIT_MS * 2;

  /** By default each sync goes to the thread that suits how long syncs take; `mode` fixes it. */
  constructor(databasePath: string, mode?: "inline" | "async") {
    this.#path = `${databasePath}-wal`;
    this.#mode = mode;
  }

  /** Resolves when everything that was committed before the call survives a power cut. */
  sync(): Promise<void> | void {
    const descriptor = this.#descriptor ??= this.#open();
    const start = performance.now();
    if (this.#mode === undefined ? this.#mean < INLINE_LIMIT_MS : this.#mode === "inline") {
      fdatasyncSync(descriptor);
      this.#note(start);
      return;
    }
    return fdatasyncAsync(descriptor).then(() => this.#note(start));
  }

  #note(start: number): void {
    this.#mean += WEIGHT * (performance.now() - start - this.#mean);
  }

  #open(): number {
    const descriptor = openSync(this.#path, "r+");
    // The file's own name must survive, too. SQLite does this at its first sync, which is ours here.
    const folder = openSync(dirname(this.#path), "r");
    fsyncSync(folder);
    close(folder, () => {});
    return descriptor;
  }

  /** Gives the descriptor back. */
  async close(): Promise<void> {
    const descriptor = this.#descriptor;
    this.#descriptor = undefined;
    if (descriptor !== undefined) await closeAsync(descriptor);
  }
}
