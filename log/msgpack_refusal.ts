/**
 * How the default codec refuses: a value, with the path to where it sits, or bytes, with their offset.
 *
 * @module
 */

import { ThreadlogError } from "./errors.ts";
import type { ErrorCode } from "./errors.ts";
import { MAX_DEPTH } from "./msgpack_format.ts";

const IDENTIFIER = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

/** Characters of a long path that a message shows. */
const PLACE_HEAD = 120;
const PLACE_TAIL = 60;

/** Thrown inside the writer. It gathers the path while it unwinds, so that success pays nothing for it. */
export class Refusal {
  readonly what: string;
  readonly remedy: string;
  readonly code: ErrorCode;
  readonly cause: unknown;
  /** Innermost first, as are the containers. */
  readonly segments: string[] = [];
  readonly containers: object[] = [];

  constructor(what: string, remedy: string, code: ErrorCode = "unencodable", cause?: unknown) {
    this.what = what;
    this.remedy = remedy;
    this.code = code;
    this.cause = cause;
  }

  toError(): ThreadlogError {
    const place = shortened("$" + this.segments.reverse().join(""));
    return new ThreadlogError(this.code, this.what, { place, remedy: this.remedy, cause: this.cause });
  }
}

/** A cycle has no end, so it always shows as too deep a value: one that meets a container for the second time. */
export class TooDeep extends Refusal {
  constructor(container: object) {
    super(`A value nested more than ${MAX_DEPTH} deep can't be stored`, "Flatten it, or store its parts apart.");
    this.containers.push(container);
  }

  override toError(): ThreadlogError {
    const path = this.containers.reverse();
    const again = path.findIndex((container, i) => path.indexOf(container) < i);
    if (again < 0) return super.toError();
    return new ThreadlogError("unencodable", "A value that contains itself can't be stored", {
      place: shortened("$" + this.segments.reverse().slice(0, again).join("")),
      remedy: "Refer to the outer value by a name or an id instead.",
    });
  }
}

/** Anything but a refusal came from the value itself: a getter or a proxy that threw. */
export function toRefusal(error: unknown): Refusal {
  return error instanceof Refusal
    ? error
    : new Refusal("Reading this value threw", "Store plain data, without getters that throw.", "unencodable", error);
}

export function within(error: unknown, container: object, segment: string): Refusal {
  const refusal = toRefusal(error);
  refusal.segments.push(segment);
  refusal.containers.push(container);
  return refusal;
}

/** A path as a message shows it: of a long one, its two ends. */
export function shortened(place: string): string {
  if (place.length <= PLACE_HEAD + PLACE_TAIL) return place;
  // At the ends of whole steps, where these are not long themselves.
  const head = place.slice(0, PLACE_HEAD);
  const tail = place.slice(-PLACE_TAIL);
  const end = Math.max(head.lastIndexOf("["), head.lastIndexOf("."));
  const begin = tail.search(/[[.]/);
  return `${end < PLACE_HEAD / 2 ? head : head.slice(0, end)} ... ${tail.slice(Math.max(begin, 0))}`.toWellFormed();
}

/** How a property shows in a path: `.name`, or `["two words"]`. */
export function property(key: string): string {
  return IDENTIFIER.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}

export function instance(value: object): Refusal {
  const name = Object.getPrototypeOf(value)?.constructor?.name;
  return new Refusal(
    typeof name === "string" && name !== "" ? `An instance of ${name} can't be stored` : "This object can't be stored",
    "Store plain data, and rebuild such objects from it when reading.",
  );
}

export function extras(kind: string): Refusal {
  return new Refusal(`${kind} with properties of its own can't be stored`, "Store the properties beside it.");
}

export function refuseSymbols(object: object): void {
  if (Object.getOwnPropertySymbols(object).length > 0) {
    throw new Refusal("An object with symbol keys can't be stored", "Use strings as keys.");
  }
}

export function refuseExtras(object: object, kind: string): void {
  if (Object.keys(object).length > 0 || Object.getOwnPropertySymbols(object).length > 0) throw extras(kind);
}

/** An offset says where bytes went wrong. What they hold stays out of the text: it may be private, or huge. */
export function undecodable(what: string, at: number, cause?: unknown): ThreadlogError {
  return new ThreadlogError("undecodable", what, { place: `byte ${at}`, cause });
}
