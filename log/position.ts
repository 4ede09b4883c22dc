/**
 * Places in a log and in a thread, and the ways to name one.
 *
 * @module
 */

import { guarded } from "./arguments.ts";
import { invalid } from "./errors.ts";

/** An event's place in the log: 1, 2, 3, ... without gaps; 0 is before the first. */
export type Position = number & { readonly unit?: "position" };

/** An event's place in its thread: 1, 2, 3, ... without gaps; 0 is before the first. */
export type Version = number & { readonly unit?: "version" };

/** The end of a thread. */
export interface Head {
  /** Its last version; 0 if the thread does not exist. */
  readonly version: Version;
  /** The position of its last event; 0 if the thread does not exist. */
  readonly position: Position;
}

/** A place in the log. */
export type LogPoint = Position | Date | { readonly position: Position };

/** A place in a thread. A bare number is a version; name a position as `{ position }`. */
export type ThreadPoint = Version | Date | { readonly version: Version } | { readonly position: Position };

/** A point after its form has been checked: what the layers below resolve. */
export type Point =
  | { readonly kind: "version"; readonly version: Version }
  | { readonly kind: "position"; readonly position: Position }
  | { readonly kind: "time"; readonly time: number };

const SHAPES = "Give a whole number >= 0, a Date, { position }, a snapshot or an event.";

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function parseObject(point: object, place: string): Point | undefined {
  if (point instanceof Date) {
    const time = point.getTime();
    if (Number.isNaN(time)) throw invalid("An invalid Date names no point", place, SHAPES);
    return { kind: "time", time };
  }
  const { position } = point as { position?: unknown };
  if (isCount(position)) return { kind: "position", position };
  return undefined;
}

function parseVersion(point: object): Point | undefined {
  const { version } = point as { version?: unknown };
  return isCount(version) ? { kind: "version", version } : undefined;
}

/** Checks a point of the log. */
export function parseLogPoint(point: unknown, place: string): Point {
  if (isCount(point)) return { kind: "position", position: point };
  const parsed = typeof point === "object" && point !== null
    ? guarded(place, () => parseObject(point, place))
    : undefined;
  if (parsed === undefined) throw invalid("Not a point of the log", place, SHAPES);
  return parsed;
}

/** Checks a point of a thread. */
export function parseThreadPoint(point: unknown, place: string): Point {
  if (isCount(point)) return { kind: "version", version: point };
  if (typeof point === "object" && point !== null) {
    const parsed = guarded(place, () => parseObject(point, place) ?? parseVersion(point));
    if (parsed !== undefined) return parsed;
  }
  throw invalid("Not a point of the thread", place, SHAPES);
}

/** Behind every position there will ever be. */
export const END: Position = Number.MAX_SAFE_INTEGER as Position;
