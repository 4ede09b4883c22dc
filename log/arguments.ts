/**
 * Options, as callers hand them over: anything may come, with getters that throw or change their minds.
 *
 * @module
 */

import { invalid, ThreadlogError } from "./errors.ts";

/** The named options, each read once; those that are not there stay absent. */
export function takeOptions<Options extends object, Name extends keyof Options & string>(
  options: Options,
  names: readonly Name[],
  place = "options",
): Pick<Options, Name> {
  if (typeof options !== "object" || options === null) {
    throw invalid(
      "The options must be an object",
      place,
      `As in { ${names.join(", ")} }; leave out what is not needed.`,
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

/** Looks into what a caller passed; what it throws meanwhile is its own fault, and said so. */
export function guarded<T>(place: string, look: () => T): T {
  try {
    return look();
  } catch (cause) {
    if (cause instanceof ThreadlogError) throw cause;
    throw invalid("Reading this argument threw", place, "Pass plain data, without getters that throw.", cause);
  }
}
