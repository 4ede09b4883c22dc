/**
 * A log, or two on one file, beside the model of what they must show.
 */
import { setImmediate } from "node:timers";
import type { Event, Log, Snapshot, ThreadId } from "../../mod.ts";
import type { LogSubject } from "../support/backends.ts";
import { byCodePoint, type Found, LogModel, type ModelEvent } from "../support/log_model.ts";

/** Ids that differ in little: labels below labels, and labels that hold what separates labels. */
export const IDS: readonly ThreadId[] = ["a", "b", ["a", "b"], ["a", "b", "c"], "a\0b", ["😀", ""], "\u{ffff}"];
/** Keys that differ in little, or that plain objects have. */
export const KEYS: readonly string[] = ["k", "l", "", "b\0k", "__proto__", "😀", "\u{ffff}"];

/** A snapshot, and all that it must show for ever. */
export interface Kept {
  readonly snapshot: Snapshot;
  readonly shows: ReadonlyMap<string, Found>;
  readonly listed: ReturnType<LogModel["listed"]>;
}

/** A write with ids: doing it again must give the same events. */
export interface Repeatable {
  readonly again: (log: Log) => Promise<Event[]>;
  readonly events: readonly ModelEvent[];
}

/** The model side. */
export class Expected {
  readonly log = new LogModel();
  readonly snapshots: Kept[] = [];
  readonly repeatable: Repeatable[] = [];
  writes = 0;
}

/** The side under test. */
export class Session {
  logs: Log[] = [];
  now = 1_700_000_000_000;
  readonly #subject: LogSubject;
  readonly #folder: string;
  readonly #cacheBytes: number | undefined;

  constructor(subject: LogSubject, folder: string, cacheBytes: number | undefined) {
    this.#subject = subject;
    this.#folder = folder;
    this.#cacheBytes = cacheBytes;
  }

  get durable(): boolean {
    return this.#subject.durable;
  }

  /** Opens the log; where it is a file, twice. */
  async open(): Promise<void> {
    const { cacheBytes } = { cacheBytes: this.#cacheBytes };
    const options = { now: () => this.now, ...(cacheBytes !== undefined && { cacheBytes }) };
    for (let i = 0; i < (this.durable ? 2 : 1); i++) this.logs.push(await this.#subject.open(this.#folder, options));
  }

  /** One of the logs. */
  log(index: number): Log {
    return this.logs[index % this.logs.length]!;
  }

  async close(): Promise<void> {
    for (const log of this.logs.splice(0)) await log.close();
  }
}

/** The next turn of the event loop, in which a log notices what another has written. */
export function turn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/** The model's name of a thread. */
export function nameOf(id: ThreadId): string {
  return JSON.stringify(labelsOf(id));
}

/** The id behind a name. */
export function idOf(name: string): ThreadId {
  const labels = JSON.parse(name) as string[];
  return labels.length === 1 ? labels[0]! : labels;
}

function labelsOf(id: ThreadId): readonly string[] {
  return typeof id === "string" ? [id] : id;
}

/** Orders names label by label. */
export function byLabels(a: string, b: string): number {
  const [x, y] = [JSON.parse(a) as string[], JSON.parse(b) as string[]];
  for (let i = 0; i < Math.min(x.length, y.length); i++) {
    const order = byCodePoint(x[i]!, y[i]!);
    if (order !== 0) return order;
  }
  return x.length - y.length;
}

/** Whether a thread is below a prefix of whole labels. */
export function isBelow(name: string, prefix: ThreadId | readonly []): boolean {
  const labels = JSON.parse(name) as string[];
  const wanted = typeof prefix === "string" ? [prefix] : prefix;
  return wanted.every((label, i) => labels[i] === label);
}
