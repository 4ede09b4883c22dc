/**
 * Names: thread ids, keys and event ids, and the bytes that order them.
 *
 * @module
 */

import { guarded } from "./arguments.ts";
import { invalid, ThreadlogError } from "./errors.ts";

/** A thread's name: one label, or a path of one or more labels. Any string is a label, as long as it is well-formed. */
export type ThreadId = string | readonly string[];

declare const branded: unique symbol;

/**
 * A thread id in its one canonical form. Each label is followed by U+0000; U+0000 and U+0001 inside a label become
 * U+0001 U+0001 and U+0001 U+0002. So the paths below a path are exactly the strings that start with it, whole labels
 * only, and code point order is the order of label lists.
 */
export type ThreadPath = string & { readonly [branded]: "path" };

/** The most labels in a thread id. */
export const MAX_LABELS = 32;
/** The most UTF-16 units in a label, a key, an event type or an event id. */
export const MAX_NAME_LENGTH = 4096;

// deno-lint-ignore no-control-regex
const NEEDS_ESCAPE = /[\0\x01]/;
// deno-lint-ignore no-control-regex
const ESCAPES = /[\0\x01]/g;
// deno-lint-ignore no-control-regex
const ESCAPED = /\x01[\x01\x02]/g;

/** What a name is of, with its article. */
type NameOf = "a label" | "a key" | "an event type" | "an event id";

function checkName(name: unknown, of: NameOf, place: string): asserts name is string {
  if (typeof name === "string" && name.length <= MAX_NAME_LENGTH && name.isWellFormed()) return;
  const what = capitalized(of);
  if (typeof name !== "string") {
    throw new ThreadlogError("invalid_id", `${what} must be a string, not ${describe(name)}`, {
      place,
      remedy: `Pass ${of} as a string.`,
    });
  }
  if (name.length > MAX_NAME_LENGTH) {
    throw new ThreadlogError("too_large", `${what} of ${name.length} characters is too long`, {
      place,
      remedy: `Use at most ${MAX_NAME_LENGTH}.`,
    });
  }
  throw new ThreadlogError("invalid_id", `${what} holds a lone surrogate`, {
    place,
    remedy: "Well-formed Unicode only: half a character can't be stored as UTF-8.",
  });
}

function capitalized(text: string): string {
  return text[0]!.toUpperCase() + text.slice(1);
}

/** Whether a value is a list; of a revoked proxy even that can't be asked. */
function isList(value: unknown): value is readonly unknown[] {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

function describe(value: unknown): string {
  if (isList(value)) return value.length === 0 ? "an empty list" : "a list";
  return value === null ? "null" : `a value of type ${typeof value}`;
}

function escape(label: string): string {
  return NEEDS_ESCAPE.test(label) ? label.replace(ESCAPES, (c) => c === "\0" ? "\x01\x01" : "\x01\x02") : label;
}

/** Checks a list of labels and joins them; the empty list is allowed, as the prefix of everything. */
function joinLabels(labels: readonly unknown[], place: string): ThreadPath {
  if (labels.length > MAX_LABELS) {
    throw new ThreadlogError("too_large", `A path of ${labels.length} labels is too long`, {
      place,
      remedy: `Use at most ${MAX_LABELS}.`,
    });
  }
  let path = "";
  for (let i = 0; i < labels.length; i++) {
    const label = labels[i];
    checkName(label, "a label", `${place}[${i}]`);
    path += escape(label) + "\0";
  }
  return path as ThreadPath;
}

/** Checks a thread id. */
export function parseThreadId(id: unknown, place = "thread id"): ThreadPath {
  if (typeof id === "string") {
    checkName(id, "a label", place);
    return (escape(id) + "\0") as ThreadPath;
  }
  const path = guarded(place, () => Array.isArray(id) && id.length > 0 ? joinLabels(id, place) : undefined);
  if (path !== undefined) return path;
  throw new ThreadlogError("invalid_id", `A thread id must be a string or a list of strings, not ${describe(id)}`, {
    place,
    remedy: "A string is one label; a path is a list of one or more.",
  });
}

/** Checks a prefix of thread ids: labels, possibly none. */
export function parsePrefix(prefix: unknown, place = "prefix"): ThreadPath {
  if (prefix === undefined) return "" as ThreadPath;
  if (guarded(place, () => Array.isArray(prefix) && prefix.length === 0)) return "" as ThreadPath;
  return parseThreadId(prefix, place);
}

/** The paths that a path is below: of no label, of its first, of its first two, and so on to itself. */
export function pathsAbove(path: string): string[] {
  const above = [""];
  for (let end = path.indexOf("\0"); end !== -1; end = path.indexOf("\0", end + 1)) above.push(path.slice(0, end + 1));
  return above;
}

/** The labels of a path. */
export function labelsOf(path: string): string[] {
  const labels = path.split("\0");
  labels.pop();
  return labels.map((label) =>
    label.includes("\x01") ? label.replace(ESCAPED, (pair) => pair === "\x01\x01" ? "\0" : "\x01") : label
  );
}

/** The thread id that a path stands for: a string where it has one label, else a frozen list. */
export function threadIdOf(path: string): ThreadId {
  const labels = labelsOf(path);
  return labels.length === 1 ? labels[0]! : Object.freeze(labels);
}

/** A path as a person would read it in a message. */
export function showPath(path: string): string {
  return labelsOf(path).map((label) => JSON.stringify(label)).join("/");
}

/** Checks a key of a thread. Any well-formed string is one, the empty string too. */
export function parseKey(key: unknown, place = "key"): string {
  checkName(key, "a key", place);
  return key;
}

/** Checks an event type. */
export function parseType(type: unknown, place = "type"): string {
  checkName(type, "an event type", place);
  if (type === "") throw invalid("An event type must not be empty", place, 'Name what happened, as in "tool.called".');
  return type;
}

/** Checks the id that an app gives an event. */
export function parseEventId(id: unknown, place = "id"): string | undefined {
  if (id === undefined) return undefined;
  checkName(id, "an event id", place);
  if (id === "") throw invalid("An event id must not be empty", place, "Leave it out, or name the request.");
  if (/^@\d+$/.test(id)) {
    throw new ThreadlogError("invalid_id", `The event id ${id} is reserved`, {
      place,
      remedy: 'Ids of the form "@123" stand for events without one; choose any other.',
    });
  }
  return id;
}

/** The id that an event without one goes by. */
export function defaultEventId(position: number): string {
  return `@${position}`;
}

/**
 * Compares by code point, which is also the order of UTF-8 bytes: the order in which every backend lists names.
 * UTF-16 units order the same except that surrogates must come last.
 */
export function compareNames(a: string, b: string): number {
  if (a === b) return 0;
  const end = Math.min(a.length, b.length);
  for (let i = 0; i < end; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) {
      const xs = x >= 0xd800 && x < 0xe000;
      const ys = y >= 0xd800 && y < 0xe000;
      return xs === ys ? x - y : xs ? 1 : -1;
    }
  }
  return a.length - b.length;
}
