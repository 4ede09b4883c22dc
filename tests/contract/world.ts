/**
 * A backend under test beside a model of it: each append goes to both, and what the backend answers is compared.
 */
import assert from "node:assert/strict";
import {
  type AppendOutcome,
  type AppendRequest,
  type Backend,
  type EventInput,
  Form,
  type Placement,
  type StoredEvent,
} from "../../log/backend.ts";
import { digestOf, FIRST_LINK, linkOf } from "../../log/digest.ts";
import { parseThreadId, type ThreadId, type ThreadPath } from "../../log/ids.ts";
import type { BackendSubject } from "../support/backends.ts";
import { LogModel, type ModelEvent } from "../support/log_model.ts";
import { inFolder } from "../support/scratch.ts";

const utf8 = new TextEncoder();

/** Parts of an event that a test may name. */
export interface InputOptions {
  readonly id?: string;
  readonly value?: Uint8Array;
  readonly state?: Uint8Array;
  readonly meta?: Uint8Array;
  readonly schema?: number;
  readonly base?: number;
}

/** Text as bytes: what stands for a value here. */
export function bytesOf(text: string): Uint8Array {
  return utf8.encode(text);
}

/** The path of a thread. */
export function at(id: ThreadId): ThreadPath {
  return parseThreadId(id);
}

/** Makes an event to append. */
export function inputOf(
  event: Pick<EventInput, "path" | "type"> & Partial<Omit<EventInput, "digest">>,
): EventInput {
  const body = {
    path: event.path,
    type: event.type,
    key: event.key,
    id: event.id,
    schema: event.schema ?? 1,
    form: event.form ?? Form.whole,
    value: event.value,
    state: event.state,
    base: event.base,
    meta: event.meta,
  };
  return { ...body, origin: event.origin, digest: digestOf(body) };
}

/** A put, as most tests need it. */
export function setOf(id: ThreadId, key: string, options: InputOptions = {}): EventInput {
  return inputOf({ path: at(id), type: "set", key, value: bytesOf(`${key}!`), ...options });
}

/** The backend and its model. */
export class World {
  readonly model = new LogModel();
  /** What the backend must give back, by position. */
  readonly stored = new Map<number, StoredEvent>();
  backend: Backend;
  now = 1_700_000_000_000;
  readonly #reopen: (() => Promise<Backend>) | undefined;

  constructor(backend: Backend, reopen: (() => Promise<Backend>) | undefined) {
    this.backend = backend;
    this.#reopen = reopen;
  }

  /** Closes the store and opens it again, where the suite runs that way. */
  async pause(): Promise<void> {
    if (this.#reopen === undefined) return;
    await this.backend.close();
    this.backend = await this.#reopen();
  }

  /** Appends one request, which must be accepted, and gives its placements. */
  async append(...events: EventInput[]): Promise<readonly Placement[]> {
    const [outcome] = await this.backend.append([{ events, expects: [] }]);
    return this.accepted(events, outcome!);
  }

  /** Appends requests as they are, in as many transactions as the backend likes. */
  async request(...requests: AppendRequest[]): Promise<readonly AppendOutcome[]> {
    const outcomes: AppendOutcome[] = [];
    do {
      const some = await this.backend.append(requests.slice(outcomes.length));
      if (requests.length > 0) assert.ok(some.length > 0, "a request is taken by each call");
      outcomes.push(...some);
    } while (outcomes.length < requests.length);
    return outcomes;
  }

  /** Brings the model up to a request that was accepted, and checks where the backend put its events. */
  accepted(events: readonly EventInput[], outcome: AppendOutcome): readonly Placement[] {
    assert.equal(outcome.kind, "appended");
    if (outcome.kind !== "appended") throw new Error("unreachable");
    this.model.tick(this.now);
    const expected = events.map((event) => this.#place(event));
    assert.deepEqual(outcome.placements, expected);
    return outcome.placements;
  }

  async set(id: ThreadId, key: string, options: InputOptions = {}): Promise<ModelEvent> {
    return await this.#one(setOf(id, key, { value: bytesOf(`${key} at ${this.model.position + 1}`), ...options }));
  }

  /** A patch on the key's value as it is. */
  async patch(id: ThreadId, key: string, options: InputOptions = {}): Promise<ModelEvent> {
    const path = at(id);
    const base = this.model.state(path).get(key)!.event.position;
    const value = bytesOf(`patch at ${this.model.position + 1}`);
    return await this.#one(inputOf({ path, type: "patch", key, form: Form.patch, base, value, ...options }));
  }

  async delete(id: ThreadId, key: string, options: InputOptions = {}): Promise<ModelEvent> {
    return await this.#one(inputOf({ path: at(id), type: "delete", key, ...options }));
  }

  async app(id: ThreadId, type = "app.event", options: InputOptions = {}): Promise<ModelEvent> {
    return await this.#one(inputOf({ path: at(id), type, value: bytesOf(type), ...options }));
  }

  async fork(parent: ThreadId, version: number, child: ThreadId, options: InputOptions = {}): Promise<ModelEvent> {
    return await this.#one(forkOf(parent, version, child, options));
  }

  async restore(id: ThreadId, version: number): Promise<ModelEvent> {
    const path = at(id);
    return await this.#one(
      inputOf({ path, type: "restore", value: bytesOf(`to ${version}`), origin: { path, version } }),
    );
  }

  /** Erases a thread and removes what that leaves to remove. */
  async erase(id: ThreadId): Promise<ModelEvent> {
    const tombstone = await this.bury(id);
    await this.purge();
    return tombstone;
  }

  /** Erases a thread; its events are still there. */
  async bury(id: ThreadId): Promise<ModelEvent> {
    return await this.#one(inputOf({ path: at(id), type: "erase", value: bytesOf("erased") }));
  }

  async purge(): Promise<void> {
    for (let steps = 0; await this.backend.purge(); steps++) assert.ok(steps < 1000, "a purge ends");
  }

  async #one(event: EventInput): Promise<ModelEvent> {
    await this.append(event);
    return this.model.threads.get(event.path)!.moments.at(-1)!.event;
  }

  #place(input: EventInput): Placement {
    const event = this.#model(input);
    const { position, version, time, latest } = event;
    const before = this.model.threads.get(input.path)!.moments.at(-2);
    const previous = input.type === "erase" || before === undefined
      ? FIRST_LINK
      : this.stored.get(before.event.position)!.link;
    const link = linkOf(previous, input.digest, position, version, time);
    const { digest: _digest, origin: _origin, ...content } = input;
    this.stored.set(position, { ...content, position, version, time, latest, link });
    return { position, version, time, latest, link };
  }

  #model({ path, type, key, id, origin, form, state, value }: EventInput): ModelEvent {
    if (type === "fork") return this.model.fork(origin!.path, origin!.version, path, { id });
    if (type === "restore") return this.model.restore(path, origin!.version, { id });
    if (type === "erase") return this.model.erase(path, { id });
    // What an entry holds: the positions that it takes to read it, the newest first.
    const own = this.model.position + 1;
    const below = key === undefined ? undefined : this.model.state(path).get(key)?.value as number[] | undefined;
    const left = form === Form.whole || state !== undefined ? [own] : [own, ...below!];
    return this.model.write(path, { type, key, value, id, left });
  }
}

/** Makes a fork. */
export function forkOf(parent: ThreadId, version: number, child: ThreadId, options: InputOptions = {}): EventInput {
  const origin = { path: at(parent), version };
  return inputOf({ path: at(child), type: "fork", value: bytesOf(`at ${version}`), origin, ...options });
}

/** Runs a test on a new store. */
export function onStore(
  subject: BackendSubject,
  reopening: boolean,
  body: (world: World) => Promise<void>,
): () => Promise<void> {
  return inFolder(async (folder) => {
    const open = () => subject.open(folder, { now: () => world.now });
    const world: World = new World(await open(), reopening ? open : undefined);
    try {
      await body(world);
    } finally {
      await world.backend.close();
    }
  });
}
