/**
 * Filters on the values of a store's items.
 *
 * @module
 */

import { equal } from "../../log/equal.ts";
import { invalid } from "../../log/errors.ts";
import { compareNames } from "../../log/ids.ts";

/** Whether an item's value passes. */
export type Predicate = (value: Readonly<Record<string, unknown>>) => boolean;

/** A condition on what a key holds; it is asked only where the key is there. */
type Condition = (found: unknown) => boolean;

const ORDERED: Readonly<Record<string, (order: number) => boolean>> = {
  $gt: (order) => order > 0,
  $gte: (order) => order >= 0,
  $lt: (order) => order < 0,
  $lte: (order) => order <= 0,
};

/**
 * Reads a filter, once for all items. What a key must equal, or operators: `$eq $ne $gt $gte $lt $lte $in $nin
 * $exists`. A key that an item doesn't have matches nothing but `{ $exists: false }`; an operator that is not one of
 * these is refused.
 */
export function parseFilter(filter: Readonly<Record<string, unknown>> | undefined): Predicate | undefined {
  if (filter === undefined || filter === null) return undefined;
  if (typeof filter !== "object" || Array.isArray(filter)) {
    throw invalid("A filter must be an object", "filter", 'As in { status: "open" } or { score: { $gte: 10 } }.');
  }
  const checks = Object.keys(filter).map((key) => parseCondition(key, filter[key]));
  if (checks.length === 0) return undefined;
  return (value) => checks.every((check) => check(value));
}

function parseCondition(key: string, wanted: unknown): Predicate {
  const operators = operatorsOf(key, wanted);
  const has = (value: object) => Object.hasOwn(value, key);
  if (operators === undefined) return (value) => has(value) && equal(value[key], wanted);
  let absent = false;
  const conditions: Condition[] = [];
  for (const [operator, operand] of operators) {
    if (operator !== "$exists") conditions.push(parseOperator(key, operator, operand));
    else if (typeof operand !== "boolean") throw invalid("$exists needs a boolean", place(key, operator), "");
    else if (operand === false) absent = true;
  }
  if (absent) return (value) => !has(value) && conditions.length === 0;
  return (value) => has(value) && conditions.every((condition) => condition(value[key]));
}

function operatorsOf(key: string, wanted: unknown): [string, unknown][] | undefined {
  if (typeof wanted !== "object" || wanted === null || Array.isArray(wanted)) return undefined;
  const entries = Object.entries(wanted);
  const count = entries.filter(([name]) => name.startsWith("$")).length;
  if (count === 0) return undefined;
  if (count < entries.length) {
    throw invalid("A filter mixes operators with plain keys", place(key), "Use { $eq: ... } for an object to equal.");
  }
  return entries;
}

function parseOperator(key: string, operator: string, operand: unknown): Condition {
  switch (operator) {
    case "$eq":
      return (found) => equal(found, operand);
    case "$ne":
      return (found) => !equal(found, operand);
    case "$in":
    case "$nin": {
      if (!Array.isArray(operand)) throw invalid(`${operator} needs a list`, place(key, operator), "");
      const listed = (found: unknown) => operand.some((one) => equal(found, one));
      return operator === "$in" ? listed : (found) => !listed(found);
    }
  }
  const holds = Object.hasOwn(ORDERED, operator) ? ORDERED[operator] : undefined;
  if (holds === undefined) {
    throw invalid(
      `Unknown filter operator ${JSON.stringify(operator)}`,
      place(key),
      "Use $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin or $exists.",
    );
  }
  const bound = parseBound(operand);
  if (bound === undefined) {
    throw invalid(`${operator} needs a number, a date or a text`, place(key, operator), "An empty text has no order.");
  }
  return (found) => {
    const order = compareTo(found, bound);
    return order !== undefined && holds(order);
  };
}

type Bound = number | bigint | string;

/** What others can be greater or less than: texts that are numbers count as numbers. */
function parseBound(operand: unknown): Bound | undefined {
  if (typeof operand === "bigint") return operand;
  if (typeof operand === "number") return Number.isNaN(operand) ? undefined : operand;
  if (operand instanceof Date) return parseBound(operand.getTime());
  if (typeof operand !== "string" || operand.trim() === "") return undefined;
  const number = Number(operand);
  return Number.isNaN(number) ? operand : number;
}

/** The order of a value to a bound; undefined if they have none. */
function compareTo(found: unknown, bound: Bound): number | undefined {
  const value = parseBound(found);
  if (value === undefined) return undefined;
  if (typeof value === "string" || typeof bound === "string") {
    return typeof value === "string" && typeof bound === "string" ? compareNames(value, bound) : undefined;
  }
  return value < bound ? -1 : value > bound ? 1 : 0;
}

function place(key: string, operator?: string): string {
  return `filter[${JSON.stringify(key)}]${operator === undefined ? "" : `.${operator}`}`;
}
