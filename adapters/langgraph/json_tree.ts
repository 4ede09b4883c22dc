/**
 * Values as LangGraph's own serializer (`JsonPlusSerializer`) writes them, kept as a tree instead of as text.
 *
 * The log compares, patches and encodes the tree itself, so that a channel that grew by a message costs a message, and
 * a value that is in memory is read without parsing. `toTree` gives what `JSON.parse` would give of the serializer's
 * text, except that bytes and undefined stay what they are; `fromTree` gives what the serializer would have revived,
 * without an await per node.
 *
 * @module
 */

import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import { isPlainObject } from "../../log/equal.ts";

/** Deeper than this, and for anything circular, the serializer's own text is stored. */
const MAX_DEPTH = 96;

/** Whether a value has no faithful tree; then `toTree` gives this. */
export const NO_TREE: unique symbol = Symbol("no tree");

class NoTree extends Error {}

/**
 * The tree of a value, which shares nothing with it that can change; `NO_TREE` if only the text can hold it. If it is
 * to be `exact`, dates stay dates, and there is no tree where JSON would leave something out or forget a class.
 */
export function toTree(value: unknown, exact = false): unknown {
  try {
    const tree = walk("", value, { above: [], exact });
    return tree === OMIT ? NO_TREE : tree;
  } catch (error) {
    if (error instanceof NoTree) return NO_TREE;
    throw error;
  }
}

/** Where a walk is. */
interface Walk {
  /** The objects that it is inside of. */
  readonly above: unknown[];
  readonly exact: boolean;
}

/** What JSON leaves out: functions and symbols. */
const OMIT = Symbol("omit");

function walk(key: string, input: unknown, at: Walk): unknown {
  switch (typeof input) {
    case "string":
      if (!input.isWellFormed()) throw new NoTree();
      return input;
    case "number":
      // As JSON has it: neither NaN nor -0.
      return Number.isFinite(input) ? input + 0 : null;
    case "boolean":
    case "undefined":
      return input;
    case "object":
      return input === null ? null : walkObject(key, input, at);
    case "bigint":
      return record("BigInt", null, [String(input)]);
    default:
      if (at.exact) throw new NoTree();
      return OMIT;
  }
}

function walkObject(key: string, input: object, at: Walk): unknown {
  // Before its toJSON is asked: a Buffer's would make a list of numbers of it.
  if (input instanceof Uint8Array) return Uint8Array.from(input);
  if (at.exact && input instanceof Date) return new Date(input);
  const { above } = at;
  if (above.length > MAX_DEPTH || above.includes(input)) throw new NoTree();
  above.push(input);
  try {
    const { toJSON } = input as { toJSON?: unknown };
    const value: unknown = typeof toJSON === "function" ? toJSON.call(input, key) : input;
    if (typeof value !== "object" || value === null) return walk(key, value, at);
    return walkParts(replace(value), at);
  } finally {
    above.pop();
  }
}

function walkParts(value: object, at: Walk): unknown {
  if (Array.isArray(value)) {
    const items = new Array<unknown>(value.length);
    for (let i = 0; i < value.length; i++) {
      const item = walk(String(i), value[i], at);
      items[i] = item === OMIT ? null : item;
    }
    return items;
  }
  if (value instanceof String || value instanceof Number || value instanceof Boolean) {
    return walk("", value.valueOf(), at);
  }
  if (at.exact && !isPlainObject(value)) throw new NoTree();
  const properties: Record<string, unknown> = {};
  for (const name of Object.keys(value)) {
    if (!name.isWellFormed()) throw new NoTree();
    const property = walk(name, (value as Record<string, unknown>)[name], at);
    if (property !== OMIT) setOwn(properties, name, property);
  }
  return properties;
}

/** The records by which LangGraph's serializer writes what JSON can't. */
function replace(value: object): object {
  if (value instanceof DeltaSnapshot) return { lc: 2, type: "delta_snapshot", value: value.value };
  if (value instanceof Set) return record("Set", null, [[...value]]);
  if (value instanceof Map) return record("Map", null, [[...value]]);
  if (value instanceof RegExp) return record("RegExp", null, [value.source, value.flags]);
  if (value instanceof Error) return record("Error", null, [value.message]);
  const { lg_name, node, args, timeout } = value as Record<string, unknown>;
  if (lg_name === "Send") return timeout === undefined ? { node, args } : { node, args, timeout };
  return value;
}

function record(name: string, method: string | null, args: unknown[]): object {
  return { lc: 2, type: "constructor", id: [name], method, args, kwargs: {} };
}

/** Sets an own property, whatever its name: an assignment to `__proto__` would change the prototype. */
export function setOwn(object: object, name: string, value: unknown): void {
  if (name === "__proto__") {
    Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
  } else (object as Record<string, unknown>)[name] = value;
}

/** A LangChain object that is yet to be made, and where it goes. */
interface Pending {
  readonly holder: object;
  readonly name: string;
  readonly record: object;
}

/**
 * A value of its own from a tree; a promise of it only if the tree holds LangChain objects, which LangChain's `load`
 * makes.
 */
export function fromTree(tree: unknown): unknown {
  const pending: Pending[] = [];
  const root = { value: undefined as unknown };
  root.value = revive(tree, root, "value", pending);
  return pending.length === 0 ? root.value : loadAll(pending).then(() => root.value);
}

async function loadAll(pending: readonly Pending[]): Promise<void> {
  const { load } = await import("@langchain/core/load");
  await Promise.all(pending.map(async ({ holder, name, record }) => {
    setOwn(holder, name, await load(JSON.stringify(record)));
  }));
}

/** Revives bottom-up. What is inside a LangChain object stays a record: `load` makes the whole of it. */
function revive(tree: unknown, holder: object, name: string, pending: Pending[] | undefined): unknown {
  if (typeof tree !== "object" || tree === null) return tree;
  if (tree instanceof Uint8Array) return Uint8Array.from(tree);
  if (tree instanceof Date) return new Date(tree);
  if (Array.isArray(tree)) {
    const items = new Array<unknown>(tree.length);
    for (let i = 0; i < tree.length; i++) items[i] = revive(tree[i], items, String(i), pending);
    return items;
  }
  const { lc, type } = tree as { lc?: unknown; type?: unknown };
  if (lc === 1 && type === "constructor" && Array.isArray((tree as { id?: unknown }).id)) {
    const inert = reviveProperties(tree, undefined);
    pending?.push({ holder, name, record: inert });
    return inert;
  }
  const properties = reviveProperties(tree, pending);
  return lc === 2 ? reviveRecord(properties) : properties;
}

function reviveProperties(tree: object, pending: Pending[] | undefined): Record<string, unknown> {
  const properties: Record<string, unknown> = {};
  for (const key of Object.keys(tree)) {
    setOwn(properties, key, revive((tree as Record<string, unknown>)[key], properties, key, pending));
  }
  return properties;
}

/** The closed set of records that are made into something; any other stays the inert data that it is. */
function reviveRecord(record: Record<string, unknown>): unknown {
  const { type, id, args, method } = record;
  if (type === "undefined") return undefined;
  if (type === "delta_snapshot" && Object.hasOwn(record, "value")) return new DeltaSnapshot(record["value"]);
  if (type !== "constructor" || !Array.isArray(id) || id.length !== 1 || !Array.isArray(args)) return record;
  const [first, second] = args as unknown[];
  const plain = method === null || method === undefined;
  switch (id[0]) {
    case "Set":
      return plain && args.length === 1 && Array.isArray(first) ? new Set(first) : record;
    case "Map":
      return plain && args.length === 1 && Array.isArray(first) &&
          first.every((pair) => Array.isArray(pair) && pair.length === 2)
        ? new Map(first)
        : record;
    case "RegExp":
      return plain && typeof first === "string" && typeof second === "string"
        ? toRegExp(first, second, record)
        : record;
    case "Error":
      return plain && typeof first === "string" ? new Error(first) : record;
    case "BigInt":
      return plain && typeof first === "string" && /^-?\d+$/.test(first) ? BigInt(first) : record;
    case "Uint8Array":
      return (plain || method === "from") && Array.isArray(first) && first.every(isByte)
        ? new Uint8Array(first)
        : record;
    default:
      return record;
  }
}

function toRegExp(source: string, flags: string, record: object): unknown {
  try {
    return new RegExp(source, flags);
  } catch {
    return record;
  }
}

function isByte(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= 255;
}
