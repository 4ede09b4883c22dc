/**
 * What changed between two points: the log range between them says where to look, the states at both ends say what.
 *
 * @module
 */

import { guarded } from "./arguments.ts";
import type { StoredEvent } from "./backend.ts";
import type { Core, Moment } from "./core.ts";
import { invalid, ThreadlogError } from "./errors.ts";
import { equal } from "./equal.ts";
import type { Operation } from "./event.ts";
import { compareNames, showPath, type ThreadId, threadIdOf, type ThreadPath } from "./ids.ts";
import { apply, diff } from "./json_patch.ts";
import type { Point, Position, Version } from "./position.ts";
import { listValues, readValue } from "./view.ts";

/** The net change of one key between two points. */
export interface Change<Key extends string = string> {
  /** The thread. */
  readonly thread: ThreadId;
  /** The key. */
  readonly key: Key;
  /** Whether the key came, went, or has another value. */
  readonly kind: "added" | "changed" | "removed";
  /** The value at the first point; undefined if added. */
  readonly before: unknown;
  /** The value at the second point; undefined if removed. */
  readonly after: unknown;
  /** RFC 6902 operations that turn `before` into `after`: `apply(before, operations)`. */
  readonly operations: readonly Operation[];
}

/** Events fetched at a time. */
const PAGE = 512;

/** Which keys of a thread may have changed: some, or any. */
type Touched = Set<string> | "any";

/** The changes from one position to another, in the order of threads and keys. */
export async function* diffLog(
  core: Core,
  prefix: ThreadPath,
  from: Position,
  to: Position,
): AsyncIterableIterator<Change> {
  const touched = new Map<ThreadPath, Touched>();
  const end = Math.max(from, to);
  for (let after = Math.min(from, to); after < end;) {
    const page = await core.backend.read({ after, to: end, limit: PAGE });
    for (const event of page) if (event.path.startsWith(prefix)) touch(touched, event, true);
    after = page.length < PAGE ? end : page.at(-1)!.position;
  }
  for (const path of [...touched.keys()].sort(compareNames)) {
    yield* compare(core, path, touched.get(path)!, { at: { position: from } }, { at: { position: to } });
  }
}

/** The changes of a thread from one version to another, in the order of keys. */
export async function* diffThread(
  core: Core,
  path: ThreadPath,
  from: Version,
  to: Version,
): AsyncIterableIterator<Change> {
  const touched = new Map<ThreadPath, Touched>([[path, new Set()]]);
  const end = Math.max(from, to);
  for (let version = Math.min(from, to) + 1; version <= end;) {
    const page = await core.backend.history(path, { from: version, to: end, limit: PAGE, reverse: false });
    // Inherited events belong to the parent, but are this thread's history: what they touch is its own.
    for (const event of page) touch(touched, { ...event, path }, false);
    version = page.length < PAGE ? end + 1 : page.at(-1)!.version + 1;
  }
  yield* compare(core, path, touched.get(path)!, { at: { version: from } }, { at: { version: to } });
}

function touch(touched: Map<ThreadPath, Touched>, event: StoredEvent, forks: boolean): void {
  const known = touched.get(event.path);
  if (known === "any") return;
  // A fork begins with all that it inherits; in its own count of versions that was there before.
  if (event.type === "restore" || event.type === "erase" || (event.type === "fork" && forks)) {
    touched.set(event.path, "any");
  } else if (event.key !== undefined) {
    if (known === undefined) touched.set(event.path, new Set([event.key]));
    else known.add(event.key);
  }
}

async function* compare(
  core: Core,
  path: ThreadPath,
  touched: Touched,
  from: Moment,
  to: Moment,
): AsyncIterableIterator<Change> {
  const keys = touched === "any"
    ? new Set([...await keysAt(core, path, from), ...await keysAt(core, path, to)])
    : touched;
  for (const key of [...keys].sort(compareNames)) {
    const [before, after] = await Promise.all([valueAt(core, path, key, from), valueAt(core, path, key, to)]);
    const change = changeOf(path, key, before, after);
    if (change !== undefined) yield change;
  }
}

/** A value in a box, so that a stored `undefined` differs from none. */
type Box = { readonly value: unknown } | undefined;

function changeOf(path: ThreadPath, key: string, before: Box, after: Box): Change | undefined {
  if (before === undefined && after === undefined) return undefined;
  if (before !== undefined && after !== undefined && equal(before.value, after.value)) return undefined;
  const kind = before === undefined ? "added" : after === undefined ? "removed" : "changed";
  const operations: Operation[] = before === undefined
    ? [{ op: "add", path: "", value: after!.value }]
    : after === undefined
    ? [{ op: "remove", path: "" }]
    : diff(before.value, after.value);
  return Object.freeze({
    thread: threadIdOf(path),
    key,
    kind,
    before: before?.value,
    after: after?.value,
    operations: Object.freeze(operations),
  });
}

async function valueAt(core: Core, path: ThreadPath, key: string, moment: Moment): Promise<Box> {
  try {
    const value = await readValue(core, path, key, moment);
    return value && { value: value.read() };
  } catch (error) {
    if (isErased(error)) return undefined;
    throw error;
  }
}

async function keysAt(core: Core, path: ThreadPath, moment: Moment): Promise<string[]> {
  const keys: string[] = [];
  const all = { prefix: "", after: undefined, limit: Infinity, reverse: false };
  try {
    for await (const value of listValues(core, path, () => Promise.resolve(moment), all)) keys.push(value.event.key!);
  } catch (error) {
    if (!isErased(error)) throw error;
  }
  return keys;
}

/** What was erased compares as if it had never been there. */
function isErased(error: unknown): boolean {
  return error instanceof ThreadlogError && error.code === "erased";
}

/** The version that a point of a thread stands for. */
export async function versionAt(core: Core, path: ThreadPath, point: Point): Promise<Version> {
  const moment = await core.moment(path, point);
  if ("root" in moment) return (await core.keyspace.head(moment.root, path)).version;
  if ("version" in moment.at) return moment.at.version;
  return (await core.backend.thread(path, moment.at))?.version ?? 0;
}

/** The version that a fork or restore to a point continues from: like a read of it, refused where it was erased. */
export async function originAt(core: Core, path: ThreadPath, point: Point): Promise<Version> {
  const version = await versionAt(core, path, point);
  if (version > 0 || point.kind === "version") return version;
  const record = await core.backend.thread(path, { position: await core.resolve(point) });
  if (record === undefined) return 0;
  throw new ThreadlogError("erased", `Thread ${showPath(path)} was erased through version ${record.erased}`, {
    place: `thread ${showPath(path)}`,
    remedy: "Choose a later point: what was erased can't come back.",
  });
}

/**
 * Makes the state at the second point out of the state at the first and the changes between them. Neither is changed.
 *
 * @example
 * ```ts
 * import { applyChanges, openLog } from "threadlog";
 *
 * await using log = await openLog(":memory:");
 * const thread = log.thread("a");
 * await thread.put("n", 1);
 * await thread.put("n", 2);
 * const state = applyChanges(new Map([["n", 1]]), await Array.fromAsync(thread.diff(1, 2)));
 * console.log(state.get("n")); // 2
 * ```
 */
export function applyChanges(
  state: ReadonlyMap<string, unknown>,
  changes: Iterable<Pick<Change, "key" | "kind" | "operations">>,
): Map<string, unknown> {
  if (typeof state !== "object" || state === null) {
    throw invalid("The state must be a Map", "state", "Of values by their keys.");
  }
  const result = guarded("state", () => new Map(state));
  const list = guarded("changes", () => {
    if (typeof (changes as Partial<Iterable<unknown>> | undefined)?.[Symbol.iterator] !== "function") {
      throw invalid("The changes must be a list", "changes", "As thread.diff() gives them.");
    }
    return Array.from(changes, ({ key, kind, operations }) => ({ key, kind, operations }));
  });
  for (const { key, kind, operations } of list) {
    if (kind === "removed") result.delete(key);
    else result.set(key, apply(result.get(key), operations));
  }
  return result;
}
