/**
 * Old events, read in today's shape.
 *
 * @module
 */

import { guarded } from "./arguments.ts";
import type { StoredEvent } from "./backend.ts";
import { invalid, ThreadlogError } from "./errors.ts";
import { showPath } from "./ids.ts";

/**
 * Turns the value of one event type from a schema version to the next. It must be pure: the same value gives the same
 * result for ever. For the built-in type `"set"` it sees the key's value, and patches of it apply to what it returns.
 *
 * @example
 * ```ts
 * import { openLog, type Upcaster } from "threadlog";
 *
 * const named: Upcaster = { type: "user.created", from: 1, upcast: (value) => ({ ...value as object, name: "?" }) };
 * await using log = await openLog(":memory:", { upcasters: [named] });
 * ```
 */
export interface Upcaster {
  /** The event type whose values it reads. */
  readonly type: string;
  /** The schema version it reads; it returns the next. */
  readonly from: number;
  /** The conversion. `key` is given for `"set"`. */
  readonly upcast: (value: unknown, key: string | undefined) => unknown;
}

/** The upcasters of a log, by type and version. */
export class Upcasters {
  readonly #steps = new Map<string, Upcaster[]>();

  constructor(upcasters: readonly Upcaster[]) {
    for (const upcaster of upcasters as readonly unknown[]) {
      const { type, from } = guarded("upcasters", () => ({ ...upcaster as Partial<Upcaster> }));
      if (typeof type === "string" && Number.isSafeInteger(from)) continue;
      throw invalid("An upcaster names a type and a schema version", "upcasters", "As in { type, from: 1, upcast }.");
    }
    for (const upcaster of [...upcasters].sort((a, b) => a.from - b.from)) {
      const steps = this.#steps.get(upcaster.type) ?? [];
      if (upcaster.from !== steps.length + 1 || typeof upcaster.upcast !== "function") {
        throw invalid(
          `The upcasters of ${JSON.stringify(upcaster.type)} must lead from version 1 up, one each`,
          "upcasters",
          `Next expected: { type: ${JSON.stringify(upcaster.type)}, from: ${steps.length + 1}, upcast }.`,
        );
      }
      steps.push(upcaster);
      this.#steps.set(upcaster.type, steps);
    }
  }

  /** The schema version that today's values of a type have. Patches share the schema of what they change. */
  current(type: string): number {
    return (this.#steps.get(type === "patch" ? "set" : type)?.length ?? 0) + 1;
  }

  /** Brings an event's value up to today's schema. */
  upcast(event: Pick<StoredEvent, "path" | "position" | "type" | "schema" | "key">, value: unknown): unknown {
    const { type, schema, key } = event;
    const current = this.current(type);
    if (schema === current) return value;
    if (schema > current) {
      throw new ThreadlogError("schema", `An event of type ${JSON.stringify(type)} has schema version ${schema}`, {
        place: placeOf(event),
        remedy: `This app knows versions up to ${current}; deploy the upcasters that it was written with.`,
      });
    }
    const steps = this.#steps.get(type === "patch" ? "set" : type)!;
    let result = value;
    for (let version = schema; version < current; version++) {
      try {
        result = steps[version - 1]!.upcast(result, key);
      } catch (cause) {
        throw new ThreadlogError("schema", `The upcaster of ${JSON.stringify(type)} from ${version} threw`, {
          place: placeOf(event),
          cause,
          remedy: "An upcaster must accept every value that was ever stored at its version.",
        });
      }
    }
    return result;
  }
}

function placeOf({ path, position, key }: Pick<StoredEvent, "path" | "position" | "key">): string {
  const place = `thread ${showPath(path)}, position ${position}`;
  return key === undefined ? place : `${place}, key ${JSON.stringify(key)}`;
}
