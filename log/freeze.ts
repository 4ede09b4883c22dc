/**
 * Which values may be handed out without a copy.
 *
 * @module
 */

/**
 * Freezes a value that the library owns, in depth. True if nothing in it can change any more, so that it may be shared;
 * false if it holds what JavaScript can't freeze (Map, Set, Date, bytes, ...), so that each reader needs its own copy.
 */
export function freeze(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (Object.isFrozen(value)) return true;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) if (!freeze(value[i])) return false;
  } else {
    const prototype = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null) return false;
    // Values come out of the codec or a patch of such, so every property is an own data property.
    for (const key of Object.keys(value)) if (!freeze((value as Record<string, unknown>)[key])) return false;
  }
  // Last, so that a frozen container promises frozen contents.
  Object.freeze(value);
  return true;
}
