/**
 * What a log is, in the plainest terms: every thread keeps a whole copy of its history, and the state after each event.
 * It shares nothing with the library, so that the two can be held against each other.
 */

/** An event of the model. */
export interface ModelEvent {
  readonly position: number;
  /** The thread that it was appended to. */
  readonly thread: string;
  readonly version: number;
  readonly time: number;
  readonly type: string;
  readonly key: string | undefined;
  readonly value: unknown;
  readonly id: string | undefined;
  readonly meta: unknown;
  /** The position of the thread's newest entry, as of this event; 0 if it has none. */
  readonly latest: number;
}

/** What a key holds, and the event that left it. */
export interface ModelEntry {
  readonly event: ModelEvent;
  readonly value: unknown;
}

/** A thread's state by key. */
export type ModelState = ReadonlyMap<string, ModelEntry>;

/** An event of a thread's history, inherited or its own, and the state after it. */
export interface Moment {
  readonly event: ModelEvent;
  readonly state: ModelState;
}

/** What is appended. */
export interface ModelInput {
  readonly type: string;
  readonly key?: string | undefined;
  readonly value?: unknown;
  /** What the key holds afterwards. */
  readonly left?: unknown;
  readonly id?: string | undefined;
  readonly meta?: unknown;
}

/** A thread: moments by version - 1, undefined where they were erased. */
export interface ModelThread {
  readonly name: string;
  readonly created: number;
  readonly parent: { readonly name: string; readonly version: number } | undefined;
  moments: (Moment | undefined)[];
  erased: number;
  tombstone: number;
}

/** A version counts along a thread's history, a position along the log. */
export type ModelPoint = { readonly version: number } | { readonly position: number };

/** What there is at a point. */
export type Found = "nothing" | "erased" | "beyond" | Moment;

const EMPTY: ModelState = new Map();

/** The model. */
export class LogModel {
  readonly threads = new Map<string, ModelThread>();
  position = 0;
  time = 0;

  /** The last version of a thread; 0 if it does not exist. */
  version(name: string): number {
    return this.threads.get(name)?.moments.length ?? 0;
  }

  /** The state of a thread now. */
  state(name: string): ModelState {
    return this.threads.get(name)?.moments.at(-1)?.state ?? EMPTY;
  }

  /** Appends events that share one moment of time. */
  tick(now: number): void {
    this.time = Math.max(now, this.time);
  }

  /** Appends a put, patch, deletion or an app's event. */
  write(name: string, input: ModelInput): ModelEvent {
    const state = new Map(this.state(name));
    return this.#append(name, input, (event) => {
      if (event.type === "delete") state.delete(event.key!);
      else if (event.key !== undefined) state.set(event.key, { event, value: input.left });
      return state;
    });
  }

  /** A new thread whose history begins as another's. */
  fork(parent: string, version: number, name: string, input: Omit<ModelInput, "type"> = {}): ModelEvent {
    const shared = this.threads.get(parent)!.moments.slice(0, version);
    const last = shared.at(-1);
    this.threads.set(name, {
      name,
      created: this.position + 1,
      parent: last && { name: last.event.thread, version },
      moments: shared,
      erased: shared.findLastIndex((moment) => moment === undefined) + 1,
      tombstone: 0,
    });
    return this.#append(name, { ...input, type: "fork" }, () => last?.state ?? EMPTY);
  }

  /** The state goes back to what it was. */
  restore(name: string, version: number, input: Omit<ModelInput, "type"> = {}): ModelEvent {
    const { state } = version === 0 ? { state: EMPTY } : this.threads.get(name)!.moments[version - 1]!;
    return this.#append(name, { ...input, type: "restore" }, () => state);
  }

  /** Everything before the tombstone goes; what others share with the thread is theirs. */
  erase(name: string, input: Omit<ModelInput, "type"> = {}): ModelEvent {
    const event = this.#append(name, { ...input, type: "erase" }, () => EMPTY);
    const thread = this.threads.get(name)!;
    thread.erased = event.version - 1;
    thread.tombstone = event.position;
    thread.moments = thread.moments.map((moment) => moment?.event === event ? moment : undefined);
    return event;
  }

  #append(name: string, input: ModelInput, evolve: (event: ModelEvent) => ModelState): ModelEvent {
    const { type, key, value, id, meta } = input;
    const position = ++this.position;
    let thread = this.threads.get(name);
    if (thread === undefined) {
      thread = { name, created: position, parent: undefined, moments: [], erased: 0, tombstone: 0 };
      this.threads.set(name, thread);
    }
    const version = thread.moments.length + 1;
    const event = { position, thread: name, version, time: this.time, type, key, value, id, meta, latest: 0 };
    const state = evolve(event);
    event.latest = newestOf(state)?.event.position ?? 0;
    thread.moments.push({ event, state });
    return event;
  }

  /** What there is of a thread at a point. */
  find(name: string, at: ModelPoint): Found {
    const thread = this.threads.get(name);
    if (thread === undefined) return "nothing";
    if ("version" in at) {
      if (at.version === 0) return "nothing";
      if (at.version > thread.moments.length) return "beyond";
      return thread.moments[at.version - 1] ?? "erased";
    }
    if (at.position < thread.created) return "nothing";
    if (at.position < thread.tombstone) return "erased";
    return thread.moments.findLast((moment) =>
      moment !== undefined && moment.event.thread === name && moment.event.position <= at.position
    )!;
  }

  /** The events that are in some thread's history still, by position. */
  kept(): ModelEvent[] {
    const events = new Map<number, ModelEvent>();
    for (const { moments } of this.threads.values()) {
      for (const moment of moments) if (moment !== undefined) events.set(moment.event.position, moment.event);
    }
    return [...events.values()].sort((a, b) => a.position - b.position);
  }

  /** A thread's history, without what was erased. */
  history(name: string): ModelEvent[] {
    return (this.threads.get(name)?.moments ?? []).flatMap((moment) => moment === undefined ? [] : [moment.event]);
  }

  /** The threads that a listing shows at a position: those that are more than a tombstone. */
  listed(position: number): { readonly thread: ModelThread; readonly event: ModelEvent }[] {
    return [...this.threads.values()].flatMap((thread) => {
      const found = this.find(thread.name, { position });
      if (typeof found === "string" || found.event.type === "erase") return [];
      return [{ thread, event: found.event }];
    });
  }

  /** The thread's own event under an id. */
  byId(name: string, id: string): ModelEvent | undefined {
    return this.history(name).find((event) => event.thread === name && event.id === id);
  }
}

/** The entry that was set or changed last. */
export function newestOf(state: ModelState): ModelEntry | undefined {
  let newest: ModelEntry | undefined;
  for (const entry of state.values()) {
    if (newest === undefined || entry.event.position > newest.event.position) newest = entry;
  }
  return newest;
}

/** Compares by code point. */
export function byCodePoint(a: string, b: string): number {
  const [x, y] = [Array.from(a, (c) => c.codePointAt(0)!), Array.from(b, (c) => c.codePointAt(0)!)];
  const i = x.findIndex((point, index) => point !== y[index]);
  return i === -1 ? x.length - y.length : x[i]! - (y[i] ?? -1);
}
