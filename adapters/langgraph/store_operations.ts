/**
 * Operations of a store, told apart and checked before anything is done.
 *
 * @module
 */

import {
  type GetOperation,
  InvalidNamespaceError,
  type ListNamespacesOperation,
  type MatchCondition,
  type Operation,
  type PutOperation,
  type SearchOperation,
} from "@langchain/langgraph-checkpoint";
import { invalid } from "../../log/errors.ts";
import { parseKey } from "../../log/ids.ts";
import { parseFilter, type Predicate } from "./store_filter.ts";
import { formOf, type StoredItem } from "./store_items.ts";
import { checkCount, checkNamespace, parseConditions } from "./store_namespaces.ts";

/** An operation that has been checked. */
export type Checked =
  | { readonly kind: "get"; readonly namespace: readonly string[]; readonly key: string }
  | {
    readonly kind: "put";
    readonly namespace: readonly string[];
    readonly key: string;
    /** A copy of the value; null deletes the item. */
    readonly form: Pick<StoredItem, "value" | "tree"> | null;
    readonly index: false | readonly string[] | undefined;
    /** Minutes; null for ever; undefined for the store's default. */
    readonly ttl: number | null | undefined;
  }
  | {
    readonly kind: "search";
    readonly prefix: readonly string[];
    readonly filter: object | undefined;
    readonly passes: Predicate | undefined;
    readonly limit: number;
    readonly offset: number;
    readonly query: string | undefined;
  }
  | {
    readonly kind: "namespaces";
    readonly conditions: readonly MatchCondition[] | undefined;
    readonly matches: (namespace: readonly string[]) => boolean;
    readonly maxDepth: number | undefined;
    readonly limit: number;
    readonly offset: number;
  };

/** Checks an operation. Which it is shows in the keys that it has. */
export function checkOperation(operation: Operation): Checked {
  if (typeof operation !== "object" || operation === null) {
    throw invalid("An operation must be an object", "operations", "As in { namespace, key }.");
  }
  if ("namespacePrefix" in operation) return checkSearch(operation);
  if ("key" in operation) return "value" in operation ? checkPut(operation) : checkGet(operation);
  return checkList(operation as ListNamespacesOperation);
}

function checkGet({ namespace, key }: GetOperation): Checked {
  checkNamespace(namespace, { allowEmpty: true, allowReservedRoot: true });
  return { kind: "get", namespace: [...namespace], key: parseKey(key) };
}

function checkPut(operation: PutOperation & { readonly ttl?: number | null }): Checked {
  const { namespace, key, value, index, ttl } = operation;
  checkNamespace(namespace, { allowEmpty: value === null, allowReservedRoot: true });
  if (value !== null && (typeof value !== "object" || Array.isArray(value))) {
    throw invalid("The value of an item must be an object", `item ${JSON.stringify(key)}`, "Null deletes the item.");
  }
  if (index !== undefined && index !== null && index !== false && !Array.isArray(index)) {
    throw invalid("`index` must be false or a list of paths", `item ${JSON.stringify(key)}`, "");
  }
  checkTtl(ttl, `item ${JSON.stringify(key)}`);
  return {
    kind: "put",
    namespace: [...namespace],
    key: parseKey(key),
    form: value === null ? null : formOf(value),
    index: index ?? undefined,
    ttl,
  };
}

/** Checks minutes to live. */
export function checkTtl(ttl: unknown, place: string): asserts ttl is number | null | undefined {
  if (ttl === undefined || ttl === null || (typeof ttl === "number" && Number.isFinite(ttl) && ttl > 0)) return;
  throw invalid("A TTL must be a number of minutes > 0", place, "Leave it out to keep the item.");
}

function checkSearch({ namespacePrefix, filter, limit, offset, query }: SearchOperation): Checked {
  checkNamespace(namespacePrefix, { allowEmpty: true, allowReservedRoot: true });
  return {
    kind: "search",
    prefix: [...namespacePrefix],
    filter: filter ?? undefined,
    passes: parseFilter(filter),
    limit: checkCount(limit, "limit", 10),
    offset: checkCount(offset, "offset", 0),
    query: query === undefined || query === null || query === "" ? undefined : String(query),
  };
}

function checkList({ matchConditions, maxDepth, limit, offset }: ListNamespacesOperation): Checked {
  const depth = maxDepth === undefined || maxDepth === null ? undefined : checkCount(maxDepth, "maxDepth", 0);
  if (depth === 0) throw invalid("`maxDepth` must be at least 1", "maxDepth", "Leave it out for whole namespaces.");
  return {
    kind: "namespaces",
    conditions: matchConditions,
    matches: parseConditions(matchConditions),
    maxDepth: depth,
    limit: checkCount(limit, "limit", 100),
    offset: checkCount(offset, "offset", 0),
  };
}

/** A put by an app, as opposed to LangGraph itself, must not use the root `langgraph`. */
export function checkAppNamespace(namespace: unknown): void {
  if (Array.isArray(namespace) && namespace.length === 0) throw new InvalidNamespaceError("Namespace cannot be empty.");
  checkNamespace(namespace);
}
