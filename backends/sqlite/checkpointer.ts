/**
 * Keeps the write-ahead log short without stopping the event loop.
 *
 * A checkpoint copies pages from the WAL into the database and syncs both; it may take tens of milliseconds. So it runs
 * on a thread of its own. A first pass runs beside the writer and copies nearly everything. While commits go on it can
 * never finish, and a WAL that is never finished never starts anew: so the writer holds its next commit for a second
 * pass over the few pages that are left.
 *
 * @module
 */

import { PAGE_BYTES } from "./page_images.ts";
import type { SideWorker } from "./side_worker.ts";

/** A checkpoint is due once about this many pages have been written. */
const DUE_PAGES = 500;
/** While a pass runs, no more than this many pages are written: on a slow disk the writer waits for it. */
const MAX_PAGES = 1250;
/** Pages that a commit touches beside its values: the tail of the table and of its indexes. */
const COMMIT_PAGES = 2;

/** Decides when to checkpoint, and does. */
export class Checkpointer {
  readonly #exec: (sql: string) => void;
  readonly #worker: SideWorker;
  readonly #failed: (error: unknown) => void;
  readonly #duePages: number;
  #pages = 0;
  #running: Promise<void> | undefined;
  #finish = false;

  /** `exec` runs a statement on the caller's thread; `failed` is told of each checkpoint that fails; it is tried again in any case. */
  constructor(
    exec: (sql: string) => void,
    worker: SideWorker,
    failed: (error: unknown) => void,
    duePages: number = DUE_PAGES,
  ) {
    this.#exec = exec;
    this.#worker = worker;
    this.#failed = failed;
    this.#duePages = duePages;
  }

  /** Called after each commit with the bytes of its values. True if a checkpoint has begun: every few hundred commits. */
  committed(bytes: number): boolean {
    this.#pages += COMMIT_PAGES + Math.ceil(bytes / PAGE_BYTES);
    if (this.#pages < this.#duePages || this.#running !== undefined || this.#finish) return false;
    this.#pages = 0;
    this.#running = this.#pass().then(() => {
      this.#finish = true;
      this.#running = undefined;
    });
    return true;
  }

  /** Called before each commit. Waits only where the WAL would grow too long, or a second pass is due. */
  async turn(): Promise<void> {
    if (this.#pages > MAX_PAGES) await this.#running;
    if (!this.#finish) return;
    this.#finish = false;
    this.#pages = 0;
    await this.#pass();
  }

  /** Resolves when nothing is running. */
  async settle(): Promise<void> {
    await this.#running;
  }

  async #pass(): Promise<void> {
    const sql = "PRAGMA wal_checkpoint(PASSIVE)";
    try {
      await this.#worker.run(sql);
    } catch (error) {
      this.#failed(error);
      // No thread to be had: better a short stop than a WAL without bound.
      try {
        this.#exec(sql);
      } catch (error) {
        this.#failed(error);
      }
    }
  }
}
