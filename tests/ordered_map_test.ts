import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ThreadlogError } from "../log/errors.ts";
import { compareNames } from "../log/ids.ts";
import { OrderedMap, type ScanOptions } from "../projections/ordered_map.ts";

// Few enough that random operations meet; U+FFFF and U+10000 order differently by code point and by UTF-16 unit.
const key = fc.oneof(
  fc.array(fc.constantFrom("a", "b", "\0", "\u{e000}", "\u{ffff}", "\u{10000}", "😀"), { maxLength: 3 })
    .map((units) => units.join("")),
  fc.constantFrom("", "__proto__", "constructor", "toString"),
  fc.nat({ max: 200 }).map(String),
);

type Change = { readonly key: string; readonly value: number | undefined };
const change: fc.Arbitrary<Change> = fc.record({
  key,
  value: fc.option(fc.nat({ max: 3 }), { nil: undefined, freq: 2 }),
});
const scan: fc.Arbitrary<ScanOptions> = fc.record(
  {
    prefix: key.map((name) => name.slice(0, 2)).filter((name) => name.isWellFormed()),
    after: key,
    reverse: fc.boolean(),
  },
  { requiredKeys: [] },
);

function changed(map: OrderedMap<number>, { key, value }: Change): OrderedMap<number> {
  return value === undefined ? map.delete(key) : map.set(key, value);
}

function scanModel(model: ReadonlyMap<string, number>, { prefix = "", after, reverse }: ScanOptions) {
  const entries = [...model].sort(([a], [b]) => reverse ? compareNames(b, a) : compareNames(a, b));
  return entries.filter(([key]) =>
    key.startsWith(prefix) &&
    (after === undefined || (reverse ? compareNames(key, after) < 0 : compareNames(key, after) > 0))
  );
}

function check(map: OrderedMap<number>, model: ReadonlyMap<string, number>): void {
  const expected = scanModel(model, {});
  assert.equal(map.size, model.size);
  assert.deepStrictEqual([...map.entries()], expected);
  assert.deepStrictEqual(map.first(), expected[0]);
  assert.deepStrictEqual(map.last(), expected.at(-1));
}

test("every version agrees with a sorted Map, also after later changes", () => {
  const property = fc.property(
    fc.array(change, { maxLength: 400, size: "max" }),
    fc.array(scan, { maxLength: 20 }),
    fc.array(key),
    (changes, scans, keys) => {
      const model = new Map<string, number>();
      const versions: [OrderedMap<number>, ReadonlyMap<string, number>][] = [];
      let map = OrderedMap.empty<number>();
      for (const [i, next] of changes.entries()) {
        const same = next.value === model.get(next.key);
        const before = map;
        map = changed(map, next);
        assert.equal(map === before, same);
        if (next.value === undefined) model.delete(next.key);
        else model.set(next.key, next.value);
        if (i % 50 === 0) versions.push([map, new Map(model)]);
      }
      versions.push([map, model]);
      for (const [map, model] of versions) {
        check(map, model);
        check(OrderedMap.from(map.entries()), model);
      }
      for (const options of scans) {
        assert.deepStrictEqual([...map.entries(options)], scanModel(model, options));
        assert.deepStrictEqual([...map.keys(options)], scanModel(model, options).map(([key]) => key));
      }
      for (const name of [...keys, ...model.keys()]) {
        assert.equal(map.get(name), model.get(name));
        assert.equal(map.has(name), model.has(name));
      }
    },
  );
  fc.assert(property, { numRuns: 300 });
});

test("a map grown in bulk takes changes as one grown by set does", () => {
  for (const count of [0, 1, 32, 33, 1024, 1025, 5000]) {
    const keys = Array.from({ length: count }, (_, i) => String(i).padStart(6, "0"));
    const model = new Map(keys.map((key, i) => [key, i]));
    let map = OrderedMap.from(model);
    check(map, model);
    for (let i = 0; i < count; i += 2) {
      map = map.delete(keys[i]!).set(keys[i] + "x", i);
      model.delete(keys[i]!);
      model.set(keys[i] + "x", i);
    }
    check(map, model);
  }
});

test("an undefined value is a value", () => {
  const map = OrderedMap.empty<undefined>().set("a", undefined);
  assert.equal(map.has("a"), true);
  assert.equal(map.size, 1);
  assert.equal(map.set("a", undefined), map);
  assert.equal(map.delete("a").size, 0);
});

test("code points order keys, whether or not surrogates came first", () => {
  const sorted = ["", "a", "\u{d7ff}", "\u{e000}", "\u{ffff}", "\u{10000}", "\u{10ffff}"];
  for (const keys of [sorted, sorted.toReversed()]) {
    let map = OrderedMap.empty<number>();
    for (const key of keys) map = map.set(key, 0);
    assert.deepStrictEqual([...map.keys()], sorted);
    for (const key of keys) assert.ok(map.has(key));
    map = OrderedMap.from(map.entries());
    for (const key of keys) assert.equal(map.set(key, 0), map);
    // Old versions may still compare the fast way: a key with a surrogate is not in them.
    assert.equal(OrderedMap.empty<number>().set("\u{e000}", 0).delete("\u{10000}").size, 1);
  }
});

test("scans are lazy and stay on their version", () => {
  let map = OrderedMap.from(Array.from({ length: 1000 }, (_, i) => [String(i).padStart(4, "0"), i] as const));
  const keys = map.keys({ after: "0500" });
  assert.equal(keys.next().value, "0501");
  for (const key of map.keys()) map = map.delete(key);
  assert.equal(map.size, 0);
  assert.equal([...keys].length, 498);
});

test("entries out of order are refused", () => {
  for (const keys of [["b", "a"], ["a", "a"], ["\u{10000}", "\u{ffff}"]]) {
    assert.throws(
      () => OrderedMap.from(keys.map((key) => [key, 0])),
      (error) => error instanceof ThreadlogError && error.code === "invalid_argument",
    );
  }
});

/** How many comparisons a lookup makes, seen from outside: it grows with the depth. */
function cost(map: OrderedMap<number>, key: string): number {
  let comparisons = 0;
  const counted = { [Symbol.toPrimitive]: () => (comparisons++, key) };
  map.get(counted as never);
  return comparisons;
}

/** What a lookup may cost: a tree whose nodes are no narrower than this has no more levels. */
function costLimit(count: number, leastWidth: number): number {
  const levels = Math.floor(1 + Math.log(count / 2) / Math.log(leastWidth));
  return 5 * levels + 1;
}

test("100,000 keys in any order keep the tree shallow", () => {
  const count = 100_000;
  const sorted = Array.from({ length: count }, (_, i) => String(i).padStart(6, "0"));
  // A prime stride visits every key once, far from its neighbours.
  const scattered = sorted.map((_, i) => sorted[(i * 7919) % count]!);
  const orders: Record<string, string[]> = { forward: sorted, backward: sorted.toReversed(), scattered };
  for (const [name, keys] of Object.entries(orders)) {
    let map = OrderedMap.empty<number>();
    for (const key of keys) map = map.set(key, 0);
    const full = map;
    assert.deepStrictEqual([...map.keys()], sorted, name);
    for (let i = 0; i < count; i += 97) assert.ok(cost(map, sorted[i]!) <= costLimit(count, 16), name);

    for (let i = 0; i < count; i++) if (i % 100 !== 0) map = map.delete(keys[i]!);
    assert.equal(map.size, count / 100);
    assert.deepStrictEqual([...map.keys()], keys.filter((_, i) => i % 100 === 0).sort(), name);
    for (const key of map.keys()) assert.ok(cost(map, key) <= costLimit(count / 100, 8), name);
    for (const key of map.keys()) map = map.delete(key);
    assert.equal(map, OrderedMap.empty());
    assert.equal(full.size, count);
  }
});
