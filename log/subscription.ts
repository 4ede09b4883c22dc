/**
 * Reading the log from a position on: page by page to its end, and, for a subscription, beyond it.
 *
 * @module
 */

import { guarded, takeOptions } from "./arguments.ts";
import type { Backend } from "./backend.ts";
import { invalid } from "./errors.ts";
import type { Event } from "./event.ts";
import { parsePrefix, parseType, type ThreadId } from "./ids.ts";
import { type LogPoint, parseLogPoint, type Point, type Position } from "./position.ts";
import type { Records } from "./records.ts";
import { type Filter, passes } from "./waiters.ts";

/** Which events to read. */
export interface ReadOptions {
  /** Only events behind this point. Default: from the beginning. */
  readonly after?: LogPoint;
  /** Only events up to this point. Default: the head at the time of the call. */
  readonly to?: LogPoint;
  /** Only events of threads below this path (whole labels), itself included. */
  readonly prefix?: ThreadId | readonly [];
  /** Only events of these types. */
  readonly types?: readonly string[];
  /** At most this many. */
  readonly limit?: number;
}

/** Which events to follow. */
export interface SubscribeOptions {
  /** Begin behind this point. Default: from the beginning. */
  readonly after?: LogPoint;
  /** Only events of threads below this path (whole labels), itself included. */
  readonly prefix?: ThreadId | readonly [];
  /** Only events of these types. */
  readonly types?: readonly string[];
  /** Ends the subscription: the loop over it finishes. */
  readonly signal?: AbortSignal;
}

/** Events fetched at a time: each page is one short read, so that nobody holds up a checkpoint. */
const PAGE = 256;

/** What a reader needs from the log. */
export interface Source {
  readonly backend: Backend;
  readonly records: Records;
  /** Whether the log was closed: then subscriptions end. */
  readonly isClosed: boolean;
  resolve(point: Point): Promise<Position>;
  head(): Promise<Position>;
  /**
   * Resolves when the log has grown beyond a position by something that passes a filter, or the signal aborts: with a
   * position up to which there is nothing that passes.
   */
  grown(beyond: Position, filter: Filter, signal: AbortSignal | undefined): Promise<Position>;
}

/** Checks the filter options. */
export function parseFilter(options: { readonly prefix?: unknown; readonly types?: unknown }): Filter {
  const prefix = parsePrefix(options.prefix);
  const { types } = options;
  if (types === undefined) return { prefix, types };
  const wanted = guarded("types", () => {
    if (!Array.isArray(types)) throw invalid("The filter `types` must be a list", "types", "List event types.");
    return new Set(types.map((type, i) => parseType(type, `types[${i}]`)));
  });
  return { prefix, types: wanted };
}

/** Checks a limit. */
export function parseLimit(limit: unknown, place = "limit"): number {
  if (limit === undefined) return Infinity;
  if (typeof limit !== "number" || !(limit === Infinity || (Number.isSafeInteger(limit) && limit >= 0))) {
    throw invalid("A limit must be a whole number >= 0", place, "Leave it out to read all.");
  }
  return limit;
}

/** Yields the log's events in order, up to a point. */
export function read(source: Source, options: ReadOptions): AsyncIterableIterator<Event> {
  const given = takeOptions(options, ["after", "to", "prefix", "types", "limit"]);
  const filter = parseFilter(given);
  const limit = parseLimit(given.limit);
  const after = given.after === undefined ? undefined : parseLogPoint(given.after, "after");
  const to = given.to === undefined ? undefined : parseLogPoint(given.to, "to");
  return readPages(source, filter, limit, after, to);
}

async function* readPages(
  source: Source,
  filter: Filter,
  limit: number,
  after: Point | undefined,
  to: Point | undefined,
): AsyncIterableIterator<Event> {
  const head = await source.head();
  const end = to === undefined ? head : Math.min(head, await source.resolve(to));
  let position = after === undefined ? 0 : await source.resolve(after);
  let left = limit;
  while (position < end && left > 0) {
    const page = await source.backend.read({ after: position, to: end, limit: PAGE });
    for (const stored of page) {
      if (!passes(filter, stored)) continue;
      yield source.records.event(stored);
      if (--left === 0) return;
    }
    position = page.length < PAGE ? end : page.at(-1)!.position;
  }
}

/** Yields the log's events in order, and goes on as it grows. */
export function subscribe(source: Source, options: SubscribeOptions): AsyncIterableIterator<Event> {
  const given = takeOptions(options, ["after", "prefix", "types", "signal"]);
  const filter = parseFilter(given);
  const after = given.after === undefined ? undefined : parseLogPoint(given.after, "after");
  const { signal } = given;
  if (signal !== undefined && !guarded("signal", () => signal instanceof AbortSignal)) {
    throw invalid("The option `signal` must be an AbortSignal", "signal", "Pass `controller.signal`.");
  }
  // Leaving the loop must not wait for the next event.
  const left = new AbortController();
  const signals = signal === undefined ? left.signal : AbortSignal.any([signal, left.signal]);
  const events = follow(source, filter, after, signals);
  return {
    next: () => events.next(),
    return: (value) => {
      left.abort();
      return events.return!(value);
    },
    throw: (error) => {
      left.abort();
      return events.throw!(error);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

async function* follow(
  source: Source,
  filter: Filter,
  after: Point | undefined,
  signal: AbortSignal,
): AsyncIterableIterator<Event> {
  let position = after === undefined ? 0 : await source.resolve(after);
  let head = await source.head();
  while (!signal.aborted) {
    while (position < head) {
      const page = await source.backend.read({ after: position, to: head, limit: PAGE });
      for (const stored of page) {
        if (!passes(filter, stored)) continue;
        if (signal.aborted) return;
        yield source.records.event(stored);
      }
      position = page.length < PAGE ? head : page.at(-1)!.position;
    }
    position = await source.grown(position, filter, signal);
    if (source.isClosed) return;
    head = await source.head();
  }
}
