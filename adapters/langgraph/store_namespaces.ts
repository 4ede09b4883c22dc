/**
 * Namespaces of a store: which are allowed, and which of them a listing asks for.
 *
 * @module
 */

import { InvalidNamespaceError, type MatchCondition, validateNamespace } from "@langchain/langgraph-checkpoint";
import { invalid } from "../../log/errors.ts";

/** Checks a namespace of an item: labels, none of which is reserved for LangGraph unless that is allowed. */
export function checkNamespace(
  namespace: unknown,
  options: { readonly allowEmpty?: boolean; readonly allowReservedRoot?: boolean } = {},
): asserts namespace is string[] {
  if (!Array.isArray(namespace)) throw new InvalidNamespaceError("A namespace must be a list of labels.");
  validateNamespace(namespace, options);
}

/** Checks a number of things to skip or to give. */
export function checkCount(count: unknown, name: string, absent: number): number {
  if (count === undefined || count === null) return absent;
  if (typeof count === "number" && (Number.isSafeInteger(count) || count === Infinity) && count >= 0) return count;
  throw invalid(`\`${name}\` must be a whole number >= 0`, name, "Leave it out for the default.");
}

/** Whether a namespace meets every condition. In one, `*` stands for any one label. */
export function parseConditions(
  conditions: readonly MatchCondition[] | undefined,
): (namespace: readonly string[]) => boolean {
  for (const { matchType, path } of conditions ?? []) {
    if (matchType !== "prefix" && matchType !== "suffix") {
      throw invalid(`Unsupported match type: ${matchType}`, "matchConditions", 'Use "prefix" or "suffix".');
    }
    checkNamespace(path, { allowEmpty: true, allowReservedRoot: true });
  }
  return (namespace) =>
    (conditions ?? []).every(({ matchType, path }) => {
      const start = matchType === "prefix" ? 0 : namespace.length - path.length;
      return path.length <= namespace.length &&
        path.every((label, i) => label === "*" || label === namespace[start + i]);
    });
}

/** The labels that every namespace which meets the conditions begins with. */
export function commonPrefix(conditions: readonly MatchCondition[] | undefined): string[] {
  let longest: string[] = [];
  for (const { matchType, path } of conditions ?? []) {
    const end = path.indexOf("*");
    const literal = matchType === "prefix" ? (end === -1 ? path : path.slice(0, end)) : [];
    if (literal.length > longest.length) longest = literal;
  }
  return longest;
}
