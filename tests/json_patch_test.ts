import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { equal } from "../log/equal.ts";
import { ThreadlogError } from "../log/errors.ts";
import type { Operation } from "../log/event.ts";
import { apply, diff, formatPointer, hasAt, parsePointer, valueAt } from "../log/json_patch.ts";

// ---- arbitrary values

const key = fc.oneof(
  fc.constantFrom("a", "b", "c", "", "~", "/", "~1", "0", "-", "__proto__", "constructor", "toString", "length"),
  fc.string({ maxLength: 3 }),
);

/** An object with own data properties, even if one is called __proto__. */
function objectOf(entries: readonly (readonly [string, unknown])[]): Record<string, unknown> {
  return Object.fromEntries(entries);
}

const primitive = fc.oneof(
  fc.constantFrom(null, undefined, true, false, 0, -0, NaN, Infinity, 1, 2, "", "x", 0n, 7n),
  fc.double(),
  fc.string({ maxLength: 4 }),
);

const exotic = fc.oneof(
  fc.integer({ min: 0, max: 3 }).map((time) => new Date(time)),
  fc.constant(0).map(() => new Date(NaN)),
  fc.constantFrom("g", "i").map((flags) => new RegExp("x", flags)),
  fc.constantFrom("a", "b").map((message) => new Error(message)),
  fc.constantFrom("a", "b").map((message) => new TypeError(message, { cause: message })),
  fc.uint8Array({ maxLength: 2 }),
  fc.float32Array({ maxLength: 2 }),
  fc.uint8Array({ maxLength: 2 }).map((bytes) => new Uint8Array(bytes).buffer),
  fc.uint8Array({ maxLength: 2 }).map((bytes) => new DataView(new Uint8Array(bytes).buffer)),
);

const { value: anyValue } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    primitive,
    exotic,
    fc.array(tie("value"), { maxLength: 6 }),
    fc.array(fc.tuple(key, tie("value")), { maxLength: 5 }).map(objectOf),
    fc.array(fc.tuple(fc.oneof(primitive, key), tie("value")), { maxLength: 3 }).map((entries) => new Map(entries)),
    fc.array(primitive, { maxLength: 3 }).map((members) => new Set(members)),
  ),
}));

type Random = (below: number) => number;

/** A copy that shares what it can, changed in a few places: what an app does to its state between two puts. */
function edited(value: unknown, random: Random, fresh: readonly unknown[]): unknown {
  const other = fresh[random(fresh.length)];
  if (Array.isArray(value)) {
    const copy: unknown[] = [...value];
    const at = random(copy.length + 1);
    switch (random(7)) {
      case 0:
        copy.push(other);
        break;
      case 1:
        copy.splice(at, 0, other, other);
        break;
      case 2:
        copy.splice(at, 1 + random(3));
        break;
      case 3:
        copy.reverse();
        break;
      case 4:
        copy.splice(0, 2, other);
        copy.push(other);
        break;
      default:
        if (at < copy.length) copy[at] = edited(copy[at], random, fresh);
    }
    return copy;
  }
  if (typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype) {
    const entries = Object.entries(value);
    const at = random(entries.length + 1);
    if (at === entries.length) entries.push([["a", "__proto__", "~/"][random(3)]!, other]);
    else if (random(3) === 0) entries.splice(at, 1);
    else if (random(4) === 0) entries.reverse();
    else entries[at]![1] = edited(entries[at]![1], random, fresh);
    return objectOf(entries);
  }
  return random(2) === 0 ? other : value;
}

const edit = fc.tuple(anyValue, fc.array(anyValue, { minLength: 1, maxLength: 4 }), fc.infiniteStream(fc.nat()))
  .map(([before, fresh, numbers]) => {
    const random: Random = (below) => numbers.next().value % below;
    let after = before;
    for (let edits = random(5); edits >= 0; edits--) after = edited(after, random, fresh);
    return [before, after] as const;
  });

function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return value;
  for (const name of Reflect.ownKeys(value)) deepFreeze((value as Record<PropertyKey, unknown>)[name]);
  return Object.freeze(value);
}

function refused(run: () => unknown, place: string): void {
  assert.throws(run, (error) => {
    assert.ok(error instanceof ThreadlogError, String(error));
    assert.equal(error.code, "invalid_argument");
    assert.equal(error.place, place);
    assert.ok(error.remedy);
    return true;
  });
}

// ---- diff and apply

/** Checks the round trip on frozen inputs, which turns any mutation into an error. */
function checkPatch(before: unknown, after: unknown): void {
  deepFreeze(before);
  deepFreeze(after);
  const operations = deepFreeze(diff(before, after));
  const result = apply(before, operations);
  assert.deepStrictEqual(result, after);
  assert.ok(equal(result, after));
  assert.equal(operations.length === 0, equal(before, after));
}

test("a diff between any two values, applied to the first, gives the second", () => {
  fc.assert(fc.property(anyValue, anyValue, checkPatch), { numRuns: 1000 });
});

test("a diff between a value and an edit of it, applied to the value, gives the edit", () => {
  fc.assert(fc.property(edit, ([before, after]) => checkPatch(before, after)), { numRuns: 3000 });
});

test("a value and its copy have no difference", () => {
  fc.assert(fc.property(fc.clone(anyValue, 2), ([a, b]) => {
    assert.deepStrictEqual(diff(a, a), []);
    assert.deepStrictEqual(diff(a, b), []);
  }));
});

const messages = (count: number) =>
  Array.from(
    { length: count },
    (_, i) => ({ role: i % 2 ? "user" : "agent", content: [{ type: "text", text: `${i}` }] }),
  );

test("one element more, less or other in 1,000 is one operation", () => {
  const before = { messages: messages(1000) };
  const cases: [Operation, (list: unknown[]) => unknown][] = [
    [{ op: "add", path: "/messages/1000", value: "new" }, (list) => list.push("new")],
    [{ op: "add", path: "/messages/0", value: "new" }, (list) => list.unshift("new")],
    [{ op: "add", path: "/messages/500", value: "new" }, (list) => list.splice(500, 0, "new")],
    [{ op: "remove", path: "/messages/999" }, (list) => list.pop()],
    [{ op: "remove", path: "/messages/0" }, (list) => list.shift()],
    [{ op: "remove", path: "/messages/500" }, (list) => list.splice(500, 1)],
    [{ op: "replace", path: "/messages/500", value: null }, (list) => list.splice(500, 1, null)],
    [{ op: "replace", path: "/messages/7/content/0/text", value: "x" }, (list) => {
      (list[7] as ReturnType<typeof messages>[0]).content[0]!.text = "x";
    }],
  ];
  for (const [operation, change] of cases) {
    const after = { messages: messages(1000) };
    change(after.messages);
    assert.deepStrictEqual(diff(before, after), [operation]);
    checkPatch(before, after);
  }
});

test("a window that slides over messages costs what enters and leaves it", () => {
  const all = messages(120);
  assert.equal(diff(all.slice(0, 100), structuredClone(all.slice(20))).length, 40);
});

test("messages that give way to a summary are removed, and the rest stay", () => {
  const before = messages(100);
  const after = ["summary", ...structuredClone(before.slice(60)), "next"];
  const operations = diff(before, after);
  assert.equal(operations.length, 61);
  assert.deepStrictEqual(apply(before, operations), after);
});

test("a beginning written anew leaves the end alone", () => {
  const before = [...Array.from({ length: 20 }, (_, i) => `old ${i}`), ...messages(100)];
  const after = [...Array.from({ length: 30 }, (_, i) => `new ${i}`), ...messages(100)];
  assert.equal(diff(before, after).length, 30);
  checkPatch(before, after);
});

test("changes in place do not shift what lies between them", () => {
  const before = [1, 2, 3, 4, 5, 9];
  assert.deepStrictEqual(diff(before, [5, 2, 3, 4, 5, 8]), [
    { op: "replace", path: "/0", value: 5 },
    { op: "replace", path: "/5", value: 8 },
  ]);
});

test("a container of which nothing is left is replaced rather than emptied", () => {
  assert.deepStrictEqual(diff({ todo: [1, 2, 3], n: 1 }, { todo: [], n: 1 }), [
    { op: "replace", path: "/todo", value: [] },
  ]);
  assert.deepStrictEqual(diff([{ a: 1, b: 2, c: 3 }, 1], [{ d: 4 }, 1]), [
    { op: "replace", path: "/0", value: { d: 4 } },
  ]);
  assert.deepStrictEqual(diff({ a: 1 }, {}), [{ op: "remove", path: "/a" }]);
  assert.deepStrictEqual(diff({ a: 1, b: 1 }, { a: 2, b: 2 }).length, 2);
});

test("any root can take the place of any other, undefined too", () => {
  for (const [before, after] of [[undefined, 1], [1, undefined], [{}, []], [[], {}], [-0, 0], [new Map(), {}]]) {
    assert.deepStrictEqual(diff(before, after), [{ op: "replace", path: "", value: after }]);
    checkPatch(before, after);
  }
});

test("shared parts are not looked into", () => {
  const shared = new Proxy({}, {
    ownKeys: () => assert.fail("looked into"),
    get: () => assert.fail("looked into"),
  });
  assert.deepStrictEqual(diff(shared, shared), []);
  assert.equal(diff({ shared, n: 1 }, { shared, n: 2 }).length, 1);
  assert.equal(diff([shared, 1, shared], [shared, 2, shared]).length, 1);
});

// ---- apply alone

test("apply follows RFC 6902", () => {
  const cases: [unknown, Operation[], unknown][] = [
    [{ foo: "bar" }, [{ op: "add", path: "/baz", value: "qux" }], { foo: "bar", baz: "qux" }],
    [{ foo: 1 }, [{ op: "add", path: "/foo", value: 2 }], { foo: 2 }],
    [{ foo: ["bar", "baz"] }, [{ op: "add", path: "/foo/1", value: "qux" }], { foo: ["bar", "qux", "baz"] }],
    [["bar"], [{ op: "add", path: "/-", value: ["abc", "def"] }], ["bar", ["abc", "def"]]],
    [["bar"], [{ op: "add", path: "/1", value: 1 }], ["bar", 1]],
    [["bar", "qux", "baz"], [{ op: "remove", path: "/1" }], ["bar", "baz"]],
    [{ "-": 1 }, [{ op: "replace", path: "/-", value: 2 }], { "-": 2 }],
    [{ "/": 9, "~1": 10 }, [{ op: "replace", path: "/~01", value: 11 }, { op: "remove", path: "/~1" }], { "~1": 11 }],
    [{ "": { "": 1 } }, [{ op: "replace", path: "//", value: 2 }], { "": { "": 2 } }],
    [{ a: 1 }, [{ op: "replace", path: "/a", value: undefined }], { a: undefined }],
    [{ a: 1 }, [{ op: "remove", path: "" }], undefined],
    [undefined, [{ op: "add", path: "", value: [] }, { op: "add", path: "/-", value: 1 }], [1]],
  ];
  for (const [before, operations, after] of cases) {
    assert.deepStrictEqual(apply(deepFreeze(before), deepFreeze(operations)), after);
  }
});

test("apply shares what it leaves alone and copies a container once", () => {
  const before = deepFreeze({ left: { deep: [1] }, right: { deep: [2] }, list: [1, 2, 3] });
  const after = apply(before, [{ op: "replace", path: "/left/deep/0", value: 9 }]) as typeof before;
  assert.equal(after.right, before.right);
  assert.equal(apply(before, []), before);

  const patch = Array.from({ length: 100 }, (_, i): Operation => ({ op: "add", path: "/list/-", value: i }));
  const { slice } = Array.prototype;
  let copies = 0;
  Array.prototype.slice = function (...range) {
    copies++;
    return slice.apply(this, range);
  };
  try {
    assert.equal((apply(before, patch) as typeof before).list.length, 103);
  } finally {
    Array.prototype.slice = slice;
  }
  assert.equal(copies, 1);
});

test("apply never changes the values that operations hold", () => {
  const value: unknown[] = [1];
  const after = apply({}, [
    { op: "add", path: "/a", value },
    { op: "add", path: "/a/-", value: 2 },
    { op: "add", path: "/b", value },
  ]);
  assert.deepStrictEqual(after, { a: [1, 2], b: [1] });
  assert.deepStrictEqual(value, [1]);
});

test("a patch that does not fit is refused with its pointer", () => {
  const value = deepFreeze({ list: [1, 2], map: new Map([["a", 1]]), date: new Date(0), text: "abc", nothing: null });
  // deno-fmt-ignore
  const missing = [
    "/absent", "/absent/deeper", "/list/2", "/list/01", "/list/-1", "/list/1e0", "/list/+1", "/list/ 1", "/list/0x1",
    "/list/1.0", "/list/", "/list/-", "/list/length", "/list/-/0", "/list/99999999999999999999", "/map/a", "/date/x",
    "/text/0", "/nothing/a", "/constructor", "/__proto__", "/__proto__/polluted", "/constructor/prototype/polluted",
    "/toString", "list", "/~", "/~2", "/a~",
  ];
  for (const path of missing) {
    refused(() => apply(value, [{ op: "remove", path }]), path);
    refused(() => apply(value, [{ op: "replace", path, value: 1 }]), path);
  }
  for (const path of ["/list/3", "/list/01", "/list/-/0", "/list/x", "/map/a", "/text/0", "/a/b", "/__proto__/b"]) {
    refused(() => apply(value, [{ op: "add", path, value: 1 }]), path);
  }
  for (const op of ["move", "copy", "test", undefined, "__proto__"]) {
    refused(() => apply(value, [{ op, path: "/list", from: "/text", value: 1 } as never]), "/list");
  }
  refused(() => apply(value, [{ op: "add", path: "/x" } as never]), "/x");
  refused(() => apply(value, [{ op: "remove", path: 7 } as never]), "7");
  refused(() => apply(value, [null as never]), "undefined");
  refused(() => apply(value, "x" as never), "operations");
});

test("hostile keys are ordinary data", () => {
  const hostile = ["__proto__", "constructor", "prototype", "hasOwnProperty", "toString"];
  let value: unknown = {};
  for (const name of hostile) value = apply(value, [{ op: "add", path: `/${name}`, value: { polluted: 1 } }]);
  assert.deepStrictEqual(Object.keys(value as object), hostile);
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
  for (const name of hostile) value = apply(value, [{ op: "replace", path: `/${name}/polluted`, value: 2 }]);
  for (const name of hostile) assert.equal(valueAt(value, [name, "polluted"]), 2);
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
  for (const name of hostile) value = apply(value, [{ op: "remove", path: `/${name}` }]);
  assert.deepStrictEqual(value, {});
});

// ---- pointers

test("pointers survive the round trip", () => {
  assert.deepStrictEqual(parsePointer("/a~1b/~0~01//0"), ["a/b", "~~1", "", "0"]);
  for (const pointer of ["a", "/~", "/~2", "/a~/b"]) refused(() => parsePointer(pointer), pointer);
  assert.equal(formatPointer(["a/b", "~~1", "", 0]), "/a~1b/~0~01//0");
  fc.assert(fc.property(fc.array(key), (segments) => {
    assert.deepStrictEqual(parsePointer(formatPointer(segments)), segments);
  }));
});

test("valueAt and hasAt see own data only", () => {
  const value = { list: [{ a: undefined }], [""]: 0 };
  assert.equal(valueAt(value, []), value);
  assert.equal(hasAt(undefined, []), true);
  assert.equal(hasAt(value, ["list", 0, "a"]), true);
  assert.equal(valueAt(value, [""]), 0);
  const absent = [["list", 1], ["list", "00"], ["list", -1], ["list", 0.5], ["list", "length"], ["__proto__"], [
    "",
    "a",
  ]];
  for (const segments of absent) {
    assert.equal(hasAt(value, segments), false, segments.join());
    assert.equal(valueAt(value, segments), undefined);
  }
});

// ---- equal

test("equal agrees with deepStrictEqual", () => {
  const agree = (a: unknown, b: unknown) => {
    let expected = true;
    try {
      assert.deepStrictEqual(a, b);
    } catch {
      expected = false;
    }
    assert.equal(equal(a, b), expected);
    assert.equal(equal(b, a), expected);
  };
  fc.assert(fc.property(anyValue, anyValue, agree), { numRuns: 1000 });
  fc.assert(fc.property(edit, ([a, b]) => agree(a, b)), { numRuns: 1000 });
  fc.assert(fc.property(fc.clone(anyValue, 2), ([a, b]) => agree(a, b)));
});

test("equal tells apart what looks alike", () => {
  const bytes = new Uint8Array([1, 2, 3, 4]);
  const same: [unknown, unknown][] = [
    [NaN, NaN],
    [bytes, Buffer.from(bytes)],
    [bytes.subarray(1, 3), new Uint8Array([2, 3])],
    [{ a: 1, b: 2 }, { b: 2, a: 1 }],
    [new Map<unknown, unknown>([["a", 1], ["b", 2]]), new Map<unknown, unknown>([["b", 2], ["a", 1]])],
    [new Map<unknown, unknown>([[{ k: 1 }, 1], ["b", 2]]), new Map<unknown, unknown>([["b", 2], [{ k: 1 }, 1]])],
    [new Set([1, [2], "x"]), new Set(["x", [2], 1])],
    [new Error("a", { cause: [1] }), new Error("a", { cause: [1] })],
    [Object.assign(new Error("a"), { code: 1 }), Object.assign(new Error("a"), { code: 1 })],
    [new Float64Array([NaN]), new Float64Array([NaN])],
    [runInNewContext("({ a: [1] })"), { a: [1] }],
    [Object.create(null), {}],
  ];
  for (const [a, b] of same) assert.ok(equal(a, b) && equal(b, a));
  const different: [unknown, unknown][] = [
    [0, -0],
    [1, 1n],
    [null, undefined],
    [{ a: undefined }, {}],
    [{ a: undefined }, { b: undefined }],
    [{}, JSON.parse('{"__proto__":{}}')],
    [[undefined], []],
    [[], {}],
    [{}, new Map()],
    [new Date(0), new Date(1)],
    [new Date(0), {}],
    [/a/g, /a/i],
    [bytes, new Int8Array(bytes)],
    [bytes, new DataView(bytes.buffer)],
    [bytes, bytes.buffer],
    [new Float64Array([0]), new Float64Array([-0])],
    [new Map([[{ k: 1 }, 1], [{ k: 2 }, 2]]), new Map([[{ k: 2 }, 2], [{ k: 1 }, 1]])],
    [new Map([[{ k: 1 }, 1]]), new Map([[{ k: 2 }, 1]])],
    [new Map([["a", undefined]]), new Map([["b", undefined]])],
    [new Set([[1], [2]]), new Set([[2], [1]])],
    [new Set([1]), new Set([2])],
    [new Error("a"), new TypeError("a")],
    [new AggregateError([1], "a"), new AggregateError([2], "a")],
    [new Error("a"), new Error("b")],
    [new Error("a"), new Error("a", { cause: undefined })],
    [new Error("a", { cause: 1 }), new Error("a", { cause: 2 })],
    [Object.assign(new Error("a"), { code: 1 }), new Error("a")],
    [new (class {})(), {}],
  ];
  for (const [a, b] of different) assert.ok(!equal(a, b) && !equal(b, a));
});
