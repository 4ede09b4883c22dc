/**
 * Filters on a checkpoint's metadata.
 *
 * @module
 */

import { equal } from "../../log/equal.ts";
import { invalid } from "../../log/errors.ts";
import { toTree } from "./json_tree.ts";

/** Whether the metadata has each key of the filter, with an equal value. An absent key matches nothing. */
export function matchesMetadata(metadata: object, filter: Readonly<Record<string, unknown>>): boolean {
  if (typeof filter !== "object" || filter === null) {
    throw invalid("The filter must be an object", "filter", 'As in { source: "loop" }.');
  }
  // Both as they are once stored: a Date in the filter finds the string that it became.
  return Object.keys(filter).every((key) =>
    Object.hasOwn(metadata, key) && equal(toTree((metadata as Record<string, unknown>)[key]), toTree(filter[key]))
  );
}
