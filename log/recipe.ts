/**
 * Changes to a value, written as if in place.
 *
 * @module
 */

import type { Immer } from "immer";
import { guarded } from "./arguments.ts";
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
  const result = isDraftable(before) ? runDraft(before, recipe) : runPlain(before, recipe);
  if (guarded("recipe", () => typeof (result as { then?: unknown } | null)?.then === "function")) {
    throw new ThreadlogError("invalid_argument", "The recipe returned a promise", {
      place: "recipe",
      remedy: "Do what is asynchronous first, then change the draft in one piece.",
    });
  }
  return result;
}

function runDraft(before: unknown, recipe: Recipe<unknown>): unknown {
  try {
    return immer!.produce(before, recipe);
  } catch (cause) {
    // immer's errors are told by their text alone. Everything else is the recipe's own, and the caller's to see.
    if (!(cause instanceof Error && cause.message.startsWith("[Immer] An immer producer returned a new value"))) {
      throw cause;
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
  return result === undefined ? before : result;
}
