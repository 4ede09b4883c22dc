/**
 * Who waits for the log to grow: woken by an event that they want, and by no other. An event is looked up by the labels
 * of its thread, so that it costs nothing for all those who wait below other paths.
 *
 * @module
 */

import type { StoredEvent } from "./backend.ts";
import { pathsAbove, type ThreadPath } from "./ids.ts";
import type { Position } from "./position.ts";

/** Which events are wanted. */
export interface Filter {
  /** Of threads below this path, itself included. */
  readonly prefix: ThreadPath | "";
  /** Of these types; of all, if undefined. */
  readonly types: ReadonlySet<string> | undefined;
}

/** Every event. */
export const EVERYTHING: Filter = { prefix: "", types: undefined };

/** Whether an event is wanted. */
export function passes({ prefix, types }: Filter, event: StoredEvent): boolean {
  return (types === undefined || types.has(event.type)) && event.path.startsWith(prefix);
}

interface Waiter {
  readonly filter: Filter;
  /** What is not behind this position it has seen. */
  readonly beyond: Position;
  /** Told of the first event that is wanted; of none, if it must look for itself. */
  readonly wake: (position: Position | undefined) => void;
}

/** Those who wait. Each is woken once. */
export class Waiters {
  readonly #below = new Map<string, Set<Waiter>>();

  /** Adds one; gives what takes it away again. */
  add(filter: Filter, beyond: Position, wake: Waiter["wake"]): () => void {
    const waiter = { filter, beyond, wake };
    let waiters = this.#below.get(filter.prefix);
    if (waiters === undefined) this.#below.set(filter.prefix, waiters = new Set());
    waiters.add(waiter);
    return () => this.#remove(waiter);
  }

  #remove(waiter: Waiter): void {
    const { prefix } = waiter.filter;
    const waiters = this.#below.get(prefix);
    if (waiters?.delete(waiter) && waiters.size === 0) this.#below.delete(prefix);
  }

  /** Wakes those who want one of the events, which are in order. */
  tell(events: readonly StoredEvent[]): void {
    if (this.#below.size === 0) return;
    for (const event of events) {
      for (const path of pathsAbove(event.path)) {
        for (const waiter of this.#below.get(path) ?? []) {
          if (event.position <= waiter.beyond || !passes(waiter.filter, event)) continue;
          this.#remove(waiter);
          waiter.wake(event.position);
        }
      }
    }
  }

  /** Wakes all: what has happened can't be told event by event. */
  wakeAll(): void {
    for (const waiters of [...this.#below.values()]) {
      for (const waiter of waiters) {
        this.#remove(waiter);
        waiter.wake(undefined);
      }
    }
  }
}
