/**
 * RFC 6902 patches between stored values: `apply(before, diff(before, after))` equals `after`.
 *
 * Plain objects and arrays are containers; everything else (Map, Set, Date, bytes, ...) is a leaf, replaced as a whole.
 *
 * @module
 */

import { guarded } from "./arguments.ts";
import { equal, isPlainObject } from "./equal.ts";
import { invalid, type ThreadlogError } from "./errors.ts";
import type { Operation } from "./event.ts";

type Segment = string | number;
type Container = unknown[] | Record<string, unknown>;

const MISSING = Symbol("missing");

// ---- pointers

/** Splits an RFC 6901 pointer into its unescaped segments. */
export function parsePointer(pointer: string): string[] {
  if (typeof pointer !== "string") {
    const isPlain = (typeof pointer !== "object" || pointer === null) && typeof pointer !== "function";
    throw invalid("A pointer must be a string", isPlain ? String(pointer) : "pointer", 'Write "/a/0" or "".');
  }
  if (pointer === "") return [];
  if (pointer[0] !== "/") throw invalid("A pointer must start with a slash", pointer, 'Write "/a/0"; "" is the root.');
  const segments = pointer.slice(1).split("/");
  if (!pointer.includes("~")) return segments;
  if (/~(?![01])/.test(pointer)) {
    throw invalid("A ~ must be escaped in a pointer", pointer, "Write ~0 for ~, ~1 for /.");
  }
  // In this order, or ~01 would become a slash.
  return segments.map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** Joins segments into an RFC 6901 pointer. */
export function formatPointer(segments: readonly Segment[]): string {
  let pointer = "";
  for (const segment of segments) pointer = join(pointer, segment);
  return pointer;
}

function join(pointer: string, segment: Segment): string {
  const name = String(segment);
  return `${pointer}/${/[~/]/.test(name) ? name.replaceAll("~", "~0").replaceAll("/", "~1") : name}`;
}

/** The value that the segments lead to; undefined when there is none. */
export function valueAt(value: unknown, segments: readonly Segment[]): unknown {
  const found = find(value, segments);
  return found === MISSING ? undefined : found;
}

/** Whether the segments lead to a value. */
export function hasAt(value: unknown, segments: readonly Segment[]): boolean {
  return find(value, segments) !== MISSING;
}

function find(value: unknown, segments: readonly Segment[]): unknown {
  for (const segment of segments) {
    value = isContainer(value) ? child(value, segment) : MISSING;
    if (value === MISSING) break;
  }
  return value;
}

function isContainer(value: unknown): value is Container {
  return Array.isArray(value) || isPlainObject(value);
}

function child(container: Container, segment: Segment): unknown {
  if (!Array.isArray(container)) return Object.hasOwn(container, segment) ? container[segment] : MISSING;
  const index = parseIndex(segment);
  return index < container.length ? container[index] : MISSING;
}

/** The array index that a segment is in its one canonical form; NaN, which no comparison holds for, if it isn't one. */
function parseIndex(segment: Segment): number {
  return /^(?:0|[1-9]\d*)$/.test(String(segment)) ? Number(segment) : NaN;
}

// ---- diff

/**
 * The operations that make `after` from `before`. What is the same object in both is not looked into. Operations hold
 * parts of `after` by reference.
 */
export function diff(before: unknown, after: unknown): Operation[] {
  const operations: Operation[] = [];
  guarded("value", () => walk(before, after, "", operations));
  return operations;
}

/** Adds what makes `b` from `a`. Returns false if that is to replace it, so that nothing of `a` is left. */
function walk(a: unknown, b: unknown, path: string, operations: Operation[]): boolean {
  if (Object.is(a, b)) return true;
  const start = operations.length;
  if (Array.isArray(a) && Array.isArray(b)) {
    if (walkArray(a, b, path, operations)) return true;
  } else if (isPlainObject(a) && isPlainObject(b)) {
    if (walkObject(a, b, path, operations)) return true;
  } else if (equal(a, b)) return true;
  operations.length = start;
  operations.push({ op: "replace", path, value: b });
  return false;
}

/**
 * Whether operations on a container's children are worth it: not if none of its children is left and they are more
 * than the container that they make has children.
 */
function isWorthwhile(count: number, kept: number, size: number): boolean {
  return kept > 0 || count <= Math.max(1, size);
}

function walkObject(
  a: Record<string, unknown>,
  b: Record<string, unknown>,
  path: string,
  operations: Operation[],
): boolean {
  let count = 0;
  let kept = 0;
  let size = 0;
  for (const key of Object.keys(a)) {
    if (Object.hasOwn(b, key)) continue;
    operations.push({ op: "remove", path: join(path, key) });
    count++;
  }
  for (const key of Object.keys(b)) {
    size++;
    const value = b[key];
    if (!Object.hasOwn(a, key)) operations.push({ op: "add", path: join(path, key), value });
    else if (Object.is(a[key], value) || walk(a[key], value, join(path, key), operations)) {
      kept++;
      continue;
    }
    count++;
  }
  return isWorthwhile(count, kept, size);
}

/** A search for where two arrays line up again is linear; after this many in vain, elements are compared in pairs. */
const MAX_MISSES = 8;

function walkArray(a: readonly unknown[], b: readonly unknown[], path: string, operations: Operation[]): boolean {
  let aEnd = a.length;
  let bEnd = b.length;
  let i = 0;
  while (i < aEnd && i < bEnd && equal(a[i], b[i])) i++;
  while (i < aEnd && i < bEnd && equal(a[aEnd - 1], b[bEnd - 1])) aEnd--, bEnd--;

  // Operations apply in order: at each step the array holds b before j, then a from i on.
  let j = i;
  let kept = i + a.length - aEnd;
  let count = 0;
  let misses = 0;
  const remove = (length: number) => {
    for (let k = j + length - 1; k >= j; k--) operations.push({ op: "remove", path: join(path, k) });
    i += length;
    count += length;
  };
  const add = (length: number) => {
    for (const end = j + length; j < end; j++) operations.push({ op: "add", path: join(path, j), value: b[j] });
    count += length;
  };
  while (i < aEnd && j < bEnd) {
    let shift = 0;
    if (misses < MAX_MISSES && !equal(a[i], b[j])) {
      const isInPlace = i + 1 < aEnd && j + 1 < bEnd && equal(a[i + 1], b[j + 1]);
      if (!isInPlace) {
        shift = findShift(a, i, aEnd, b, j, bEnd);
        if (shift === 0) misses++;
      }
    }
    if (shift > 0) add(shift);
    else if (shift < 0) remove(-shift);
    else {
      if (walk(a[i], b[j], join(path, j), operations)) kept++;
      else count++;
      i++;
      j++;
    }
  }
  remove(aEnd - i);
  add(bEnd - j);
  return isWorthwhile(count, kept, b.length);
}

/** How many elements to add, or if negative to remove, until `a` at i and `b` at j are equal; 0 if that never happens. */
function findShift(
  a: readonly unknown[],
  i: number,
  aEnd: number,
  b: readonly unknown[],
  j: number,
  bEnd: number,
): number {
  const furthest = Math.max(aEnd - i, bEnd - j);
  for (let distance = 1; distance < furthest; distance++) {
    if (j + distance < bEnd && equal(a[i], b[j + distance])) return distance;
    if (i + distance < aEnd && equal(a[i + distance], b[j])) return -distance;
  }
  return 0;
}

// ---- apply

/**
 * The value after the operations, which share with `value` all that they leave alone. Neither `value` nor an operation
 * is ever changed; if any operation is refused, none has an effect.
 */
export function apply(value: unknown, operations: readonly Operation[]): unknown {
  if (!guarded("operations", () => Array.isArray(operations))) {
    throw invalid("A patch must be an array", "operations", "Pass a list of operations.");
  }
  return guarded("value", () => applyOwned(value, operations, new Set()));
}

/** Containers that only one caller knows: these may be changed, and each other one is copied once. */
export type Owned = Set<Container>;

/** The same, of several patches in a row: what the first has copied need not be copied again. */
export function applyOwned(value: unknown, operations: readonly Operation[], owned: Owned): unknown {
  for (const operation of operations) value = applyOne(value, operation, owned);
  return value;
}

function applyOne(root: unknown, operation: Operation, owned: Owned): unknown {
  checkOperation(operation);
  const { path } = operation;
  const segments = parsePointer(path);
  const last = segments.pop();
  if (last === undefined) return operation.op === "remove" ? undefined : operation.value;

  const newRoot = own(root, owned, path);
  let container = newRoot;
  for (const segment of segments) {
    const existing = child(container, segment);
    if (existing === MISSING) throw notFound(path, segment);
    const copy = own(existing, owned, path);
    if (copy !== existing) set(container, segment, copy);
    container = copy;
  }
  if (Array.isArray(container)) applyToArray(container, last, operation);
  else applyToObject(container, last, operation);
  return newRoot;
}

function checkOperation(operation: Operation): void {
  const [op, path, isValued] = guarded("operations", () => {
    const { op, path } = Object(operation) as Partial<Operation>;
    return [op, String(path), Object.hasOwn(Object(operation), "value")] as const;
  });
  if (op !== "add" && op !== "replace" && op !== "remove") {
    throw invalid(`Unknown operation ${String(op)}`, path, "Use add, replace or remove.");
  }
  if (op !== "remove" && !isValued) {
    throw invalid(`The operation ${op} has no value`, path, "Give it one; undefined is one too.");
  }
}

/** The container itself if this call made it, else a copy that may be changed. */
function own(value: unknown, owned: Owned, path: string): Container {
  if (!isContainer(value)) {
    throw invalid("The pointer leads into a value that has no children", path, "Replace that value as a whole.");
  }
  if (owned.has(value)) return value;
  const copy = Array.isArray(value) ? value.slice() : { ...value };
  owned.add(copy);
  return copy;
}

function set(container: Container, segment: string, value: unknown): void {
  if (segment === "__proto__") {
    // An assignment would change the prototype.
    Object.defineProperty(container, segment, { value, writable: true, enumerable: true, configurable: true });
  } else (container as Record<string, unknown>)[segment] = value;
}

function applyToArray(array: unknown[], segment: string, operation: Operation): void {
  const isAdd = operation.op === "add";
  const index = isAdd && segment === "-" ? array.length : parseIndex(segment);
  if (!(index < array.length || isAdd && index === array.length)) throw notFound(operation.path, segment);
  if (operation.op === "remove") array.splice(index, 1);
  else if (operation.op === "replace") array[index] = operation.value;
  else if (index === array.length) array.push(operation.value);
  else array.splice(index, 0, operation.value);
}

function applyToObject(object: Record<string, unknown>, segment: string, operation: Operation): void {
  if (operation.op !== "add" && !Object.hasOwn(object, segment)) throw notFound(operation.path, segment);
  if (operation.op === "remove") delete object[segment];
  else set(object, segment, operation.value);
}

function notFound(path: string, segment: string): ThreadlogError {
  return invalid(`The value has no ${JSON.stringify(segment)}`, path, "Read the value first; it may have changed.");
}
