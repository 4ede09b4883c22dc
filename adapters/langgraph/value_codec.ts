/**
 * Between LangGraph's values and what the log stores of them.
 *
 * @module
 */

import { JsonPlusSerializer } from "@langchain/langgraph-checkpoint";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { invalid } from "../../log/errors.ts";
import { fromTree, NO_TREE, toTree } from "./json_tree.ts";

/** LangGraph's port for serializers. */
export type Serde = BaseCheckpointSaver["serde"];

/** A value as it is stored: a tree that the log can compare and patch, or what a serializer made of it. */
export type Stored =
  | { readonly type: "json"; readonly value: unknown }
  | { readonly type: string; readonly bytes: Uint8Array };

/** Strings up to this length are stored inside the checkpoint. */
const SMALL_STRING = 64;

/**
 * The stored form of a value: at once with LangGraph's own serializer, through `dumpsTyped` with any other. It shares
 * nothing with the value that can change.
 */
export function dump(serde: Serde, value: unknown): Stored | Promise<Stored> {
  if (typeof value === "function" || typeof value === "symbol") {
    throw invalid(`A ${typeof value} can't be stored`, "value", "Keep it out of the graph's state.");
  }
  // A subclass may have changed what is written: it is asked.
  if (serde.constructor === JsonPlusSerializer) {
    if (value instanceof Uint8Array) return { type: "bytes", bytes: Uint8Array.from(value) };
    const tree = toTree(value);
    if (tree !== NO_TREE) return { type: "json", value: tree };
  }
  return dumpTyped(serde, value);
}

async function dumpTyped(serde: Serde, value: unknown): Promise<Stored> {
  const [type, bytes] = await serde.dumpsTyped(value);
  return { type, bytes };
}

/** The value again, the reader's own; a promise of it only where something must be waited for. */
export function load(serde: Serde, stored: Stored): unknown {
  // A serializer may give any kind of thenable.
  return "bytes" in stored ? Promise.resolve(serde.loadsTyped(stored.type, stored.bytes)) : fromTree(stored.value);
}

/** Calls a function with what is there, at once if none of it is a promise. */
export function whenAll<Part, Result>(
  parts: readonly (Part | Promise<Part>)[],
  then: (parts: readonly Part[]) => Result,
): Result | Promise<Result> {
  if (parts.some((part) => part instanceof Promise)) return Promise.all(parts).then(then);
  return then(parts as readonly Part[]);
}

/** Whether a value is so small that an event of its own would cost more than carrying it along. */
export function isSmall(stored: Stored): boolean {
  if ("bytes" in stored) return false;
  const { value } = stored;
  if (typeof value === "string") return value.length <= SMALL_STRING;
  if (typeof value !== "object" || value === null) return true;
  return Array.isArray(value) ? value.length === 0 : Object.keys(value).length === 0;
}
