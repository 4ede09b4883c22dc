/**
 * Items of a store, as the log keeps them and as LangGraph knows them.
 *
 * @module
 */

import type { Item } from "@langchain/langgraph-checkpoint";
import { encodeStrictly } from "../../log/codec.ts";
import { ThreadlogError } from "../../log/errors.ts";
import { msgpack } from "../../log/msgpack.ts";
import { fromTree, NO_TREE, setOwn, toTree } from "./json_tree.ts";

/** The most bytes in a value, as in a log by default. */
const MAX_BYTES = 64 << 20;

/** An item's entry. */
export interface StoredItem {
  /** The value as it is; or, where it holds what the log can't, such as instances of classes, as LangGraph's JSON. */
  readonly value?: unknown;
  readonly tree?: unknown;
  /** When it was first put, and last; milliseconds since 1970. */
  readonly created: number;
  readonly updated: number;
  /** How long it lives, in minutes, and until when; absent if for ever. */
  readonly ttl?: number;
  readonly expires?: number;
}

/** The state of a thread of items. */
export type ItemsState = Record<string, StoredItem>;

/** Whether an item's time is over: then it is not there for anybody, swept or not. */
export function isExpired(item: Pick<StoredItem, "expires">, now: number): boolean {
  return item.expires !== undefined && item.expires <= now;
}

/** The value of an item, the reader's own: what is done to it changes nothing stored. */
export async function valueOf(item: Pick<StoredItem, "value" | "tree">): Promise<Record<string, unknown>> {
  return ("tree" in item ? await fromTree(item.tree) : cloneOf(item.value)) as Record<string, unknown>;
}

/** The value of an item, to look at only. */
export function peek(item: StoredItem): Readonly<Record<string, unknown>> {
  return ("tree" in item ? item.tree : item.value) as Record<string, unknown>;
}

/** An item as LangGraph knows it. */
export async function toItem(namespace: readonly string[], key: string, item: StoredItem): Promise<Item> {
  return {
    value: await valueOf(item),
    key,
    namespace: [...namespace],
    createdAt: new Date(item.created),
    updatedAt: new Date(item.updated),
  };
}

/** A copy of a value in the form that the log takes: later changes to the value change nothing. */
export function formOf(value: Readonly<Record<string, unknown>>): Pick<StoredItem, "value" | "tree"> {
  try {
    return { value: msgpack.decode(encodeStrictly(msgpack, value, MAX_BYTES)) };
  } catch (error) {
    if (!(error instanceof ThreadlogError) || error.code !== "unencodable") throw error;
    const tree = toTree(value, true);
    if (tree === NO_TREE) throw error;
    return { tree };
  }
}

function cloneOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(cloneOf);
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return structuredClone(value);
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(value)) setOwn(copy, key, cloneOf((value as Record<string, unknown>)[key]));
  return copy;
}
