/**
 * Between what apps see and what backends keep: events and values on one side, bytes on the other.
 *
 * @module
 */

import { type Chain, type EventInput, Form, type StoredEvent } from "./backend.ts";
import { type Codec, decodeStrictly, encodeStrictly } from "./codec.ts";
import { digestOf } from "./digest.ts";
import { ThreadlogError } from "./errors.ts";
import type { Event, Operation } from "./event.ts";
import { freeze } from "./freeze.ts";
import { defaultEventId, parseThreadId, showPath, type ThreadId, threadIdOf, type ThreadPath } from "./ids.ts";
import { applyOwned, type Owned, parsePointer } from "./json_patch.ts";
import { shortened } from "./msgpack_refusal.ts";
import type { Version } from "./position.ts";
import type { Upcasters } from "./upcaster.ts";
import { approximateSize, type ReadCost, StoredValue } from "./value.ts";

/** The parts of an event that an append names. */
export interface EventDraft {
  readonly path: ThreadPath;
  readonly type: string;
  readonly key?: string | undefined;
  readonly id?: string | undefined;
  readonly meta?: unknown;
  readonly value?: unknown;
  readonly origin?: { readonly path: ThreadPath; readonly version: Version };
}

/**
 * A whole value is stored again where reading the last one and all patches since would take more than about three times
 * as long as reading this one: in bytes, or in patches, each of which costs about as much as so many bytes.
 */
const MAX_READ = 3;
const MIN_LINKS = 16;
const MAX_LINKS = 1024;
const BYTES_PER_LINK = 512;
/** Values from this length on are decoded late, in bytes. */
const LAZY_BYTES = 4096;
/** Patches that reach no deeper than this can't make a value too deep to be stored. */
const DEEP = 64;

/** Encodes and decodes the events of one log. */
export class Records {
  readonly #codec: Codec;
  readonly #upcasters: Upcasters;
  readonly #maxValueBytes: number;

  constructor(codec: Codec, upcasters: Upcasters, maxValueBytes: number) {
    this.#codec = codec;
    this.#upcasters = upcasters;
    this.#maxValueBytes = maxValueBytes;
  }

  /** How values become bytes. */
  get codec(): Codec {
    return this.#codec;
  }

  /** Encodes an event now, so that what the caller does to its value later changes nothing. */
  input(draft: EventDraft): EventInput {
    const { path, type, key, id, origin } = draft;
    const body = {
      path,
      type,
      key,
      id,
      schema: this.#upcasters.current(type),
      form: Form.whole,
      value: type === "delete" ? undefined : this.encode(draft.value, draft),
      state: undefined,
      base: undefined,
      meta: draft.meta === undefined ? undefined : this.encode(draft.meta, draft, "meta "),
    };
    return { ...body, origin, digest: digestOf(body) };
  }

  /** Encodes a value; a refusal names the thread and key. */
  encode(value: unknown, of: { readonly path: ThreadPath; readonly key?: string | undefined }, what = ""): Uint8Array {
    try {
      return encodeStrictly(this.#codec, value, this.#maxValueBytes);
    } catch (error) {
      if (!(error instanceof ThreadlogError)) throw error;
      const key = of.key === undefined ? "" : ` key ${JSON.stringify(of.key)}`;
      throw new ThreadlogError(error.code, error.what, {
        place: `${error.place}, ${what}of thread ${showPath(of.path)}${key}`,
        ...(error.remedy === undefined ? {} : { remedy: error.remedy }),
        cause: error.cause,
      });
    }
  }

  /** The path of a thread id that was stored. */
  pathOf(id: ThreadId): ThreadPath {
    return parseThreadId(id);
  }

  /** What an app sees of a stored event. */
  event(stored: StoredEvent): Event {
    const header = {
      position: stored.position,
      thread: threadIdOf(stored.path),
      version: stored.version,
      time: stored.time,
      id: stored.id ?? defaultEventId(stored.position),
      meta: this.meta(stored),
    };
    const { type, key } = stored;
    const value = stored.value && this.#eventValue(stored);
    return Object.freeze(key === undefined ? { ...header, type, value } : { ...header, type, key, value }) as Event;
  }

  /** The same, for whoever has just appended it and may not look: a long value is decoded when it is first wanted. */
  appended(stored: StoredEvent): Event {
    if (stored.value === undefined || stored.value.length < LAZY_BYTES) return this.event(stored);
    let value: unknown;
    let isKnown = false;
    const read = () => {
      if (!isKnown) value = this.#eventValue(stored);
      isKnown = true;
      return value;
    };
    const { value: _, ...rest } = this.event({ ...stored, value: undefined });
    const plain = () => ({ ...rest, value: read() });
    return Object.freeze(Object.defineProperties(rest, {
      value: { enumerable: true, get: read },
      // To be seen as it is by console.log.
      [Symbol.for("nodejs.util.inspect.custom")]: { value: plain },
      [Symbol.for("Deno.customInspect")]: {
        value: (inspect: (value: unknown, options: unknown) => string, options: unknown) => inspect(plain(), options),
      },
    })) as Event;
  }

  /** What an app attached to an event. */
  meta(stored: StoredEvent): unknown {
    return stored.meta && this.#own(stored.meta, stored);
  }

  #eventValue(stored: StoredEvent): unknown {
    const { type } = stored;
    const value = this.#own(stored.value!, stored);
    if (type === "patch" || type === "fork" || type === "restore" || type === "erase") return value;
    return this.#upcast(stored, value);
  }

  /** The value that an event left, from the events that it takes to read it. */
  value(chain: Chain): StoredValue {
    const newest = chain[0]!;
    const root = chain.at(-1)!;
    const whole = root.state ?? root.value!;
    const current = newest.schema === this.#upcasters.current("set");
    if (chain.length === 1 && current) {
      const cost: ReadCost = { links: 0, readBytes: whole.length, valueBytes: whole.length };
      return StoredValue.ofBytes(newest, cost, whole, (bytes) => this.#decode(bytes, newest));
    }
    let value = this.#decode(whole, root);
    let readBytes = whole.length;
    const owned: Owned = new Set();
    for (let i = chain.length - 2; i >= 0; i--) {
      readBytes += chain[i]!.value!.length;
      value = this.#patch(value, chain[i]!, this.#operations(chain[i]!), owned);
    }
    const cost = { links: chain.length - 1, readBytes, valueBytes: approximateSize(value) };
    return this.#stored(newest, cost, current ? value : this.#upcast(newest, value));
  }

  /** The value after one more event, if the value before it is at hand. */
  next(event: StoredEvent, before: StoredValue | undefined): StoredValue | undefined {
    if (event.form === Form.whole || event.state !== undefined) return this.value([event]);
    if (before === undefined || before.event.position !== event.base) return undefined;
    const operations = this.#operations(event);
    const after = this.#patch(before.read(), event, operations);
    return this.#stored(event, costAfter(before.cost, operations, event.value!.length, after), after);
  }

  /**
   * Encodes a patch. It carries the whole result where that is needed to keep reading it cheap and of one schema, or
   * where there is no stored value to build on.
   */
  patch(
    draft: { readonly path: ThreadPath; readonly key: string; readonly id: string | undefined; readonly meta: unknown },
    before: StoredValue | undefined,
    operations: readonly Operation[],
    after: unknown,
  ): EventInput {
    const { path, key, id, meta } = draft;
    const value = this.#encodeOperations(operations, draft);
    const schema = this.#upcasters.current("set");
    const body = {
      path,
      type: "patch",
      key,
      id,
      schema,
      form: Form.patch,
      value,
      state: before === undefined || before.event.schema !== schema || deepest(operations) > DEEP ||
          this.#needsWhole(costAfter(before.cost, operations, value.length, after))
        ? this.encode(after, draft)
        : undefined,
      base: before?.event.position,
      meta: meta === undefined ? undefined : this.encode(meta, draft, "meta "),
    };
    return { ...body, origin: undefined, digest: digestOf(body) };
  }

  /** What is refused in an operation is refused where it would be in the value. */
  #encodeOperations(
    operations: readonly Operation[],
    draft: { readonly path: ThreadPath; readonly key: string },
  ): Uint8Array {
    try {
      return this.encode(operations, draft);
    } catch (error) {
      const found = error instanceof ThreadlogError ? /^\$\[(\d+)\]\.value(.*)$/s.exec(error.place ?? "") : null;
      const pointer = operations[Number(found?.[1])]?.path;
      if (!(error instanceof ThreadlogError) || pointer === undefined) throw error;
      const segments = parsePointer(pointer).map((segment) => `[${JSON.stringify(segment)}]`);
      throw new ThreadlogError(error.code, error.what, {
        place: shortened(`$${segments.join("")}${found![2]}`),
        ...(error.remedy === undefined ? {} : { remedy: error.remedy }),
        cause: error.cause,
      });
    }
  }

  #needsWhole({ links, readBytes, valueBytes }: ReadCost): boolean {
    // What may have become too large or too deep is encoded whole: that refuses what could never be stored again.
    return links > Math.min(MIN_LINKS + valueBytes / BYTES_PER_LINK, MAX_LINKS) || readBytes > MAX_READ * valueBytes ||
      readBytes > this.#maxValueBytes;
  }

  /** The value that an event will leave, once it has been appended. */
  valueOf(input: EventInput): unknown {
    return decodeStrictly(this.#codec, (input.state ?? input.value)!);
  }

  /** A copy that nobody else holds, frozen where it can be. */
  copy(value: unknown, of: { readonly path: ThreadPath; readonly key?: string | undefined }): unknown {
    const copy = decodeStrictly(this.#codec, this.encode(value, of));
    freeze(copy);
    return copy;
  }

  /** Encodes a projection's state. */
  encodeState(state: unknown): Uint8Array {
    return encodeStrictly(this.#codec, state, this.#maxValueBytes);
  }

  /** Decodes a projection's state; frozen where it can be. */
  decodeState(bytes: Uint8Array): unknown {
    const state = decodeStrictly(this.#codec, bytes);
    freeze(state);
    return state;
  }

  #stored(event: StoredEvent, cost: ReadCost, value: unknown): StoredValue {
    return StoredValue.of(event, cost, value, (it) => this.encode(it, event), (bytes) => this.#decode(bytes, event));
  }

  #operations(event: StoredEvent): Operation[] {
    const operations = this.#decode(event.value!, event);
    if (Array.isArray(operations)) return operations;
    throw damaged(event, new TypeError("its operations are not a list"));
  }

  #patch(value: unknown, event: StoredEvent, operations: readonly Operation[], owned: Owned = new Set()): unknown {
    try {
      return applyOwned(value, operations, owned);
    } catch (cause) {
      throw damaged(event, cause);
    }
  }

  #upcast(stored: StoredEvent, value: unknown): unknown {
    const upcast = this.#upcasters.upcast(stored, value);
    // What an app's function returns is the app's own: only a copy may be frozen.
    return upcast === value ? value : this.copy(upcast, stored);
  }

  #own(bytes: Uint8Array, stored: StoredEvent): unknown {
    const value = this.#decode(bytes, stored);
    freeze(value);
    return value;
  }

  #decode(bytes: Uint8Array, stored: StoredEvent): unknown {
    try {
      return decodeStrictly(this.#codec, bytes);
    } catch (cause) {
      throw damaged(stored, cause);
    }
  }
}

/** What it takes to read a value after one more patch. */
function costAfter(
  { links, readBytes, valueBytes }: ReadCost,
  operations: readonly Operation[],
  patchBytes: number,
  after: unknown,
): ReadCost {
  const grows = operations.every(({ op }) => op === "add");
  return {
    links: links + 1,
    readBytes: readBytes + patchBytes,
    valueBytes: grows ? valueBytes + patchBytes : approximateSize(after),
  };
}

/** How deep the operations reach into a value. */
function deepest(operations: readonly Operation[]): number {
  let depth = 0;
  for (const operation of operations) {
    const levels = operation.path.split("/").length - 1;
    depth = Math.max(depth, levels + ("value" in operation ? depthOf(operation.value, DEEP + 1) : 0));
  }
  return depth;
}

/** How deep a value is, as far as a limit. */
function depthOf(value: unknown, limit: number): number {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return 0;
  if (limit === 0 || value instanceof Error) return limit;
  const inner = value instanceof Map
    ? [...value.keys(), ...value.values()]
    : value instanceof Set
    ? [...value]
    : Object.values(value);
  let depth = 1;
  for (const one of inner) depth = Math.max(depth, 1 + depthOf(one, limit - 1));
  return depth;
}

function damaged(stored: StoredEvent, cause: unknown): ThreadlogError {
  const what = cause instanceof ThreadlogError ? `: ${cause.message}` : "";
  return new ThreadlogError("undecodable", `A stored value can't be read${what}`, {
    place: `thread ${showPath(stored.path)}, position ${stored.position}`,
    remedy: "Other events stay readable. Run verify() to see whether the file is damaged.",
    cause,
  });
}
