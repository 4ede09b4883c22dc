/**
 * The backend behind `openLog(":memory:")`: nothing survives the process.
 *
 * @module
 */

import type { BackendStats, LogHead } from "../../log/backend.ts";
import { ThreadlogError } from "../../log/errors.ts";
import { EmbeddedBackend, type EmbeddedOptions } from "../embedded/embedded_backend.ts";
import { Payloads } from "../embedded/payloads.ts";
import { MemoryStore } from "./memory_store.ts";

/** Events in memory. */
export class MemoryBackend extends EmbeddedBackend {
  readonly kind = "memory";
  readonly readOnly = false;
  readonly codecId: string;
  protected readonly store: MemoryStore = new MemoryStore();
  protected readonly payloads: Payloads;
  #closed = false;

  constructor({ codecId, now, payloadBytes, maxValueBytes }: EmbeddedOptions) {
    super(now);
    this.codecId = codecId;
    this.payloads = new Payloads(this.store, payloadBytes, maxValueBytes);
  }

  protected write<T>(work: () => T): Promise<T> {
    return this.query(work);
  }

  protected query<T>(work: () => T): Promise<T> {
    // Not `async`: an error must come as a rejection, but a result needs no further turn.
    if (this.#closed) {
      return Promise.reject(new ThreadlogError("closed", "The log is closed", { remedy: "Open another." }));
    }
    try {
      return Promise.resolve(work());
    } catch (error) {
      return Promise.reject(error);
    }
  }

  changed(): boolean {
    return false;
  }

  head(): Promise<LogHead> {
    return Promise.resolve(this.store.head());
  }

  scrub(): Promise<void> {
    return Promise.resolve();
  }

  stats(): Promise<BackendStats> {
    return Promise.resolve({ engine: "memory", ...this.store.counts(), dataBytes: 0, walBytes: 0 });
  }

  integrity(): Promise<readonly string[]> {
    return Promise.resolve([]);
  }

  backup(_target: string): Promise<void> {
    return this.query(() => {
      throw new ThreadlogError("unsupported", "A log in memory has no backup", {
        place: ":memory:",
        remedy: "Open a file, or copy the events with read().",
      });
    });
  }

  close(): Promise<void> {
    this.#closed = true;
    return Promise.resolve();
  }
}
