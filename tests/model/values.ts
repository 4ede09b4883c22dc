/**
 * Values to store, and recipes that change them.
 */
import fc from "fast-check";

interface Record {
  n?: number;
  list: string[];
  text: string;
  at?: Date;
}

const record: fc.Arbitrary<Record> = fc.record({
  n: fc.nat({ max: 9 }),
  list: fc.array(fc.string({ maxLength: 3 }), { maxLength: 4 }),
  // Long enough that a patch is smaller than the whole.
  text: fc.constantFrom("", "short", "a long text ".repeat(30)),
}, { noNullPrototype: true });

/** Any value that the codec stores; mostly what a patch can see into. */
export const value: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 6, arbitrary: record },
  { weight: 1, arbitrary: fc.constantFrom(undefined, null, true, -0, 0, 2n ** 63n, "", "text", Number.NaN) },
  {
    weight: 1,
    arbitrary: fc.oneof(
      fc.uint8Array({ maxLength: 3 }),
      fc.nat().map((time) => new Date(time)),
      fc.array(fc.tuple(fc.nat({ max: 3 }), fc.string({ maxLength: 2 }))).map((entries) => new Map(entries)),
      fc.array(fc.nat({ max: 5 })).map((members) => new Set(members)),
    ),
  },
);

/** How many recipes there are. */
export const RECIPES = 8;

/** A recipe: changes what it is given, or returns something else. */
export function recipe(kind: number): (draft: unknown) => unknown {
  return (draft) => {
    if (draft instanceof Map) return void draft.set(kind, "set");
    if (draft instanceof Set) return void draft.add(kind);
    if (!isRecord(draft)) return { n: kind, list: [], text: "a long text ".repeat(30) };
    switch (kind) {
      case 0:
        draft.n = (draft.n ?? 0) + 1;
        return;
      case 1:
        draft.list.push(`item ${draft.list.length}`);
        return;
      case 2:
        draft.list.shift();
        return;
      case 3:
        draft.text += "!";
        return;
      case 4:
        delete draft.n;
        return;
      case 5:
        draft.at = new Date(draft.list.length);
        return;
      case 6:
        return null;
      default:
        // Changes nothing; is recorded all the same.
        return;
    }
  };
}

function isRecord(draft: unknown): draft is Record {
  return typeof draft === "object" && draft !== null && Object.hasOwn(draft, "list");
}

/** What a recipe makes of a value. */
export function changed(before: unknown, kind: number): unknown {
  const copy = structuredClone(before);
  const result = recipe(kind)(copy);
  return result === undefined ? copy : result;
}
