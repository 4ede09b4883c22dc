/**
 * What a log is made of: immutable events, tagged by `type`.
 *
 * @module
 */

import type { ThreadId } from "./ids.ts";
import type { Position, Version } from "./position.ts";

/** A value that nobody may change: what every read gives back. */
export type Immutable<T> = T extends (...args: never[]) => unknown ? T
  : T extends ReadonlyMap<infer K, infer V> ? ReadonlyMap<Immutable<K>, Immutable<V>>
  : T extends ReadonlySet<infer V> ? ReadonlySet<Immutable<V>>
  : T extends Date | RegExp | Error | ArrayBufferView | ArrayBuffer ? T
  : T extends object ? { readonly [K in keyof T]: Immutable<T[K]> }
  : T;

/**
 * One RFC 6902 operation. Values may hold anything that the codec stores, not only JSON; what JSON can't see into (Map,
 * Set, Date, bytes, ...) is replaced as a whole.
 */
export type Operation =
  | { readonly op: "add"; readonly path: string; readonly value: unknown }
  | { readonly op: "replace"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string };

/** What every event has. */
export interface EventHeader {
  /** The event's place in the log: 1, 2, 3, ... */
  readonly position: Position;
  /** The thread that the event was appended to. A fork's shared history keeps its parent's id. */
  readonly thread: ThreadId;
  /** The event's place in its thread: 1, 2, 3, ... */
  readonly version: Version;
  /** Milliseconds since 1970, as the writer's clock had them; never less than the event before. */
  readonly time: number;
  /** The id that the app gave, or `"@"` and the position. */
  readonly id: string;
  /** What the app attached beside the value; `undefined` if nothing. */
  readonly meta: unknown;
}

/** A key was set to a value. */
export interface SetEvent extends EventHeader {
  /** The tag. */
  readonly type: "set";
  /** The key that was set. */
  readonly key: string;
  /** Its new value. */
  readonly value: unknown;
}

/** A key's value was changed in part. */
export interface PatchEvent extends EventHeader {
  /** The tag. */
  readonly type: "patch";
  /** The key whose value changed. */
  readonly key: string;
  /** The operations that make the new value from the one before. */
  readonly value: readonly Operation[];
}

/** A key was deleted. */
export interface DeleteEvent extends EventHeader {
  /** The tag. */
  readonly type: "delete";
  /** The key that was deleted. */
  readonly key: string;
  /** Always undefined. */
  readonly value: undefined;
}

/** The thread began as a fork of another. */
export interface ForkEvent extends EventHeader {
  /** The tag. */
  readonly type: "fork";
  /** A fork has no key. */
  readonly key?: undefined;
  /** Whose history it shares, and up to which version. */
  readonly value: { readonly parent: ThreadId; readonly version: Version };
}

/** The thread's state went back to what it was at an earlier version. */
export interface RestoreEvent extends EventHeader {
  /** The tag. */
  readonly type: "restore";
  /** A restore has no key. */
  readonly key?: undefined;
  /** The version whose state came back. */
  readonly value: { readonly version: Version };
}

/** Everything before this event was erased from the thread. */
export interface EraseEvent extends EventHeader {
  /** The tag. */
  readonly type: "erase";
  /** A tombstone has no key. */
  readonly key?: undefined;
  /** The last version that was erased. */
  readonly value: { readonly through: Version };
}

/** An event of the app's own type. */
export interface AppEvent<Type extends string = string, Value = unknown> extends EventHeader {
  /** The app's own tag: any string that is not a built-in type. */
  readonly type: Type;
  /** App events have no key. */
  readonly key?: undefined;
  /** What the app appended. */
  readonly value: Value;
}

/** The events that Threadlog itself gives a meaning. */
export type BuiltInEvent = SetEvent | PatchEvent | DeleteEvent | ForkEvent | RestoreEvent | EraseEvent;

/** Any event of a log. */
export type Event = BuiltInEvent | AppEvent;

/** The tags of built-in events. An app can't append these itself. */
export type BuiltInType = BuiltInEvent["type"];

const BUILT_IN: ReadonlySet<string> = new Set<BuiltInType>(["set", "patch", "delete", "fork", "restore", "erase"]);

/** Whether a type is one of Threadlog's own. */
export function isBuiltInType(type: string): type is BuiltInType {
  return BUILT_IN.has(type);
}

/**
 * Tells Threadlog's own events from the app's, so that a switch over `event.type` narrows.
 *
 * @example
 * ```ts
 * import { isBuiltIn, openLog } from "threadlog";
 *
 * await using log = await openLog(":memory:");
 * await log.thread("a").put("plan", { step: 1 });
 * for await (const event of log.read()) {
 *   if (isBuiltIn(event) && event.type === "set") console.log(event.key, event.value); // plan { step: 1 }
 * }
 * ```
 */
export function isBuiltIn(event: Event): event is BuiltInEvent {
  return BUILT_IN.has(event.type);
}
