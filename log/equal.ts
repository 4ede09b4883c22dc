/**
 * When two stored values mean the same.
 *
 * @module
 */

/** Whether a value is an object that holds nothing but its own properties, of this realm or another. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null ||
    Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "isPrototypeOf");
}

/**
 * Deep strict equality over what the codec stores. Numbers compare by `Object.is`, and a property that is undefined
 * differs from an absent one. The order of properties and of primitive Map keys and Set members doesn't count; objects
 * as Map keys and Set members are compared in order. What the codec doesn't know, such as an instance of an app's
 * class, equals only itself.
 *
 * The recursion is no deeper than the shallower value, so one stored value bounds it.
 */
export function equal(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a)) return Array.isArray(b) && equalArrays(a, b);
  if (isPlainObject(a)) return isPlainObject(b) && equalProperties(a, b);
  if (a instanceof Map) return b instanceof Map && equalMaps(a, b);
  if (a instanceof Set) return b instanceof Set && equalSets(a, b);
  if (a instanceof Date) return b instanceof Date && Object.is(a.getTime(), b.getTime());
  if (ArrayBuffer.isView(a)) return ArrayBuffer.isView(b) && equalViews(a, b);
  if (a instanceof ArrayBuffer) {
    return b instanceof ArrayBuffer && equalBytes(new Uint8Array(a), new Uint8Array(b));
  }
  if (a instanceof RegExp) {
    return b instanceof RegExp && a.source === b.source && a.flags === b.flags && a.lastIndex === b.lastIndex;
  }
  if (a instanceof Error) return b instanceof Error && equalErrors(a, b);
  return false;
}

function equalArrays(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) {
    if (!equal(a[i], b[i])) return false;
  }
  return true;
}

/** Compares own enumerable properties; `for in` rather than Object.keys, which would allocate. */
function equalProperties(a: object, b: object): boolean {
  let missing = 0;
  for (const key in a) {
    if (!Object.hasOwn(a, key)) continue;
    if (!Object.hasOwn(b, key) || !equal(a[key as never], b[key as never])) return false;
    missing++;
  }
  for (const key in b) {
    if (Object.hasOwn(b, key)) missing--;
  }
  return missing === 0;
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

/** The next member that is an object; undefined at the end. */
function nextObject(members: Iterator<unknown>): unknown {
  for (let next = members.next(); !next.done; next = members.next()) {
    if (isObject(next.value)) return next.value;
  }
  return undefined;
}

function equalMaps(a: ReadonlyMap<unknown, unknown>, b: ReadonlyMap<unknown, unknown>): boolean {
  if (a.size !== b.size) return false;
  const objects = b.keys();
  for (const [key, value] of a) {
    let match = key;
    if (isObject(key)) {
      match = nextObject(objects);
      if (!equal(key, match)) return false;
    } else if (!b.has(key)) return false;
    if (!equal(value, b.get(match))) return false;
  }
  return true;
}

function equalSets(a: ReadonlySet<unknown>, b: ReadonlySet<unknown>): boolean {
  if (a.size !== b.size) return false;
  const objects = b.keys();
  for (const member of a) {
    if (!(isObject(member) ? equal(member, nextObject(objects)) : b.has(member))) return false;
  }
  return true;
}

function equalViews(a: ArrayBufferView, b: ArrayBufferView): boolean {
  // The tag is the element type, also for a Buffer.
  if (a[Symbol.toStringTag as never] !== b[Symbol.toStringTag as never]) return false;
  return equalBytes(
    new Uint8Array(a.buffer, a.byteOffset, a.byteLength),
    new Uint8Array(b.buffer, b.byteOffset, b.byteLength),
  );
}

function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) {
    if (a[i] !== b[i]) return false;
  }
  return true;
}

/** A stack is where an error was made, not what it means. */
function equalErrors(a: Error, b: Error): boolean {
  return Object.getPrototypeOf(a) === Object.getPrototypeOf(b) && a.name === b.name && a.message === b.message &&
    Object.hasOwn(a, "cause") === Object.hasOwn(b, "cause") && equal(a.cause, b.cause) &&
    equal((a as Partial<AggregateError>).errors, (b as Partial<AggregateError>).errors) &&
    equalProperties(a, b);
}
