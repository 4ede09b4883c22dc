/**
 * Changes to a value, written as if in place.
 *
 * @module
 */

import type { Immer } from "immer";
import { disown, guarded, isThenable } from "./arguments.ts";
import { ThreadlogError } from "./errors.ts";

/** Changes the draft it is given, or returns a new value. It must be synchronous: it runs between two appends. */
export type Recipe<T> = (draft: T) => T | void | undefined;

let immer: Immer | undefined;
let isDraftable: (value: unknown) => boolean;

/** Loads immer when the first recipe runs: it reads the environment on import, for which Deno asks permission. */
export async function loadRecipes(): Promise<void> {
  if (immer !== undefined) return;
  const module = await import("immer");
  module.enableMapSet();
  isDraftable = module.isDraftable;
  // What a recipe puts into its draft stays the caller's, unfrozen.
  immer = new module.Immer({ autoFreeze: false });
}

/** The value after a recipe. The value before must not be changed by anybody, or be this call's own. */
export function runRecipe(before: unknown, recipe: Recipe<unknown>): unknown {
  return guarded("recipe", () => isDraftable(before)) ? runDraft(before, recipe) : runPlain(before, recipe);
}

/** Refuses a promise before immer sees it: to immer it would be a value returned beside a changed draft. */
function refusePromise(result: unknown): void {
  if (!isThenable(result, "recipe")) return;
  disown(result);
  throw new ThreadlogError("invalid_argument", "The recipe returned a promise, but recipes are synchronous", {
    place: "recipe",
    remedy: "Do what is asynchronous first, then change the draft in one piece.",
  });
}

function runDraft(before: unknown, recipe: Recipe<unknown>): unknown {
  let returned = false;
  try {
    return immer!.produce(before, (draft: unknown) => {
      const result = recipe(draft);
      refusePromise(result);
      returned = true;
      return result;
    });
  } catch (cause) {
    // What the recipe itself throws is the caller's to see.
    if (!returned) throw cause;
    // immer's errors are told by their text alone.
    if (!(cause instanceof Error && cause.message.startsWith("[Immer] An immer producer returned a new value"))) {
      throw new ThreadlogError("unencodable", "Reading what the recipe has made threw", {
        place: "recipe",
        remedy: "Store plain data, without getters that throw.",
        cause,
      });
    }
    throw new ThreadlogError("invalid_argument", "The recipe changed its draft and returned a value, too", {
      place: "recipe",
      remedy: "Put braces around its body, as in (draft) => { draft.step = 2; }.",
      cause,
    });
  }
}

function runPlain(before: unknown, recipe: Recipe<unknown>): unknown {
  const result = recipe(before);
  refusePromise(result);
  return result === undefined ? before : result;
}
