/**
 * What single writes are made of: their options, checked, and their content, encoded at once.
 *
 * @module
 */

import { guarded } from "./arguments.ts";
import type { EventInput, Expectation } from "./backend.ts";
import type { Core } from "./core.ts";
import { invalid } from "./errors.ts";
import { isBuiltInType } from "./event.ts";
import { parseEventId, parseKey, parseType, showPath, threadIdOf, type ThreadPath } from "./ids.ts";
import type { Version } from "./position.ts";
import type { Recipe } from "./recipe.ts";
import type { PendingUpdate } from "./updates.ts";

/** What a write may say beside its content. */
export interface WriteOptions {
  /**
   * The version (or head) that the thread must have before the write, or `"new"` if it must not exist. Otherwise the
   * write is refused with a `ConflictError`.
   */
  readonly expect?: Version | "new" | { readonly version: Version };
  /**
   * A name for this write, unique in its thread. Writing again under the same id gives the event that was recorded
   * first, whatever was appended since; other content under it is refused with `id_conflict`.
   */
  readonly id?: string;
  /** Anything to keep beside the value: who, why, which run. */
  readonly meta?: unknown;
}

/** What an update may say beside its recipe. */
export interface UpdateOptions<Value = unknown> extends WriteOptions {
  /** What the recipe starts from where the key is not there. */
  readonly initial?: Value;
}

/** What `WriteOptions` names. */
export const WRITE_OPTIONS = ["expect", "id", "meta"] as const;
/** What `UpdateOptions` names. */
export const UPDATE_OPTIONS = [...WRITE_OPTIONS, "initial"] as const;

/** Checks an expectation. */
export function parseExpect(path: ThreadPath, expect: WriteOptions["expect"]): Expectation[] {
  if (expect === undefined) return [];
  const version: unknown = expect === "new"
    ? 0
    : typeof expect === "object" && expect !== null
    ? guarded("expect", () => expect.version)
    : expect;
  if (typeof version !== "number" || !Number.isSafeInteger(version) || version < 0) {
    throw invalid('`expect` must be a version, a head or "new"', `thread ${showPath(path)}`, "Take it from head().");
  }
  return [{ path, version }];
}

/** Encodes a put. */
export function setInput(core: Core, path: ThreadPath, key: string, value: unknown, options: WriteOptions): EventInput {
  return core.records.input({
    path,
    type: "set",
    key: parseKey(key),
    value,
    id: parseEventId(options.id),
    meta: options.meta,
  });
}

/** Encodes a deletion. */
export function deleteInput(core: Core, path: ThreadPath, key: string, options: WriteOptions): EventInput {
  return core.records.input({
    path,
    type: "delete",
    key: parseKey(key),
    id: parseEventId(options.id),
    meta: options.meta,
  });
}

/** Encodes an app's event. */
export function appInput(
  core: Core,
  path: ThreadPath,
  type: string,
  value: unknown,
  options: WriteOptions,
): EventInput {
  if (isBuiltInType(parseType(type))) {
    throw invalid(`The event type ${JSON.stringify(type)} is Threadlog's own`, "type", "Choose another name.");
  }
  return core.records.input({ path, type, value, id: parseEventId(options.id), meta: options.meta });
}

/** Checks an update. */
export function pendingUpdate(
  core: Core,
  path: ThreadPath,
  key: string,
  recipe: Recipe<unknown>,
  options: UpdateOptions,
): PendingUpdate {
  if (typeof recipe !== "function") {
    throw invalid("The recipe must be a function", "recipe", "As in (draft) => { draft.step = 2; }.");
  }
  return {
    path,
    key: parseKey(key),
    recipe,
    initial: "initial" in options ? { value: core.records.copy(options.initial, { path, key }) } : undefined,
    id: parseEventId(options.id),
    meta: options.meta === undefined ? undefined : core.records.copy(options.meta, { path, key }),
  };
}

/** Encodes a fork of a thread at a version. */
export function forkInput(
  core: Core,
  path: ThreadPath,
  origin: { readonly path: ThreadPath; readonly version: Version },
  options: { readonly id?: string | undefined; readonly meta?: unknown } = {},
): EventInput {
  return core.records.input({
    path,
    type: "fork",
    id: options.id,
    meta: options.meta,
    value: { parent: threadIdOf(origin.path), version: origin.version },
    origin,
  });
}
