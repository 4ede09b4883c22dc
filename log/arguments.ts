/**
 * Options, as callers hand them over: anything may come, with getters that throw or change their minds.
 *
 * @module
 */

import { invalid, ThreadlogError } from "./errors.ts";

/** Characters of a caller's name that a message shows. */
const MAX_SHOWN = 64;

/** The named options, each read once; those that are not there stay absent. Any other is refused: it may be misspelt. */
export function takeOptions<Options extends object, Name extends keyof Options & string>(
  options: Options,
  names: readonly Name[],
  place = "options",
): Pick<Options, Name> {
  if (typeof options !== "object" || options === null || !guarded(place, () => isPlain(options))) {
    throw invalid(
      "The options must be a plain object",
      place,
      `As in { ${names.join(", ")} }; leave out what is not needed.`,
    );
  }
  const unknown = guarded(place, () => Object.keys(options)).find((name) => !names.includes(name as Name));
  if (unknown !== undefined) {
    const shown = unknown.slice(0, MAX_SHOWN).toWellFormed();
    const near = names.find((name) => isNear(name, shown));
    throw invalid(
      `There is no option ${JSON.stringify(shown)}`,
      `${place}.${shown}`,
      `${near === undefined ? "" : `Did you mean \`${near}\`? `}Known: ${names.join(", ")}.`,
    );
  }
  const taken: Partial<Pick<Options, Name>> = {};
  for (const name of names) {
    guarded(`${place}.${name}`, () => {
      if (name in options) taken[name] = options[name];
    });
  }
  return taken as Pick<Options, Name>;
}

/** Whether an object is one that a literal makes, of this realm or another: not a list, a Date or a class's instance. */
function isPlain(options: object): boolean {
  if (Array.isArray(options)) return false;
  const prototype = Object.getPrototypeOf(options);
  return prototype === null || prototype === Object.prototype ||
    Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "isPrototypeOf");
}

/** Whether a name is likely to be another one misspelt. */
function isNear(name: string, misspelt: string): boolean {
  const [a, b] = [name.toLowerCase(), misspelt.toLowerCase()];
  return editDistance(a, b) <= (a.length < 5 ? 1 : 2);
}

/** How many letters must be added, dropped or replaced to make one text of the other. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}

/** An option that is true or false. */
export function parseFlag(value: unknown, name: string, fallback = false): boolean {
  if (value === undefined) return fallback;
  if (typeof value === "boolean") return value;
  throw invalid(`\`${name}\` must be a boolean`, `options.${name}`, `Leave it out for ${fallback}.`);
}

/** Looks into what a caller passed; what it throws meanwhile is its own fault, and said so. */
export function guarded<T>(place: string, look: () => T): T {
  try {
    return look();
  } catch (cause) {
    if (cause instanceof ThreadlogError) throw cause;
    throw invalid("Reading this argument threw", place, "Pass plain data, without getters that throw.", cause);
  }
}

/** Whether a value can be awaited. One that throws when asked is refused. */
export function isThenable(value: unknown, place: string): boolean {
  return guarded(place, () => typeof (value as { then?: unknown } | null | undefined)?.then === "function");
}

/** Lets pass what an asynchronous function throws after it was refused for being one: its caller has been told. */
export function disown(promise: unknown): void {
  new Promise((resolve) => resolve(promise)).catch(() => {});
}
