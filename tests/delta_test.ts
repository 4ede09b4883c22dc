/** Binary deltas: they give back what they were made of, take no more than they may, and are safe to read from anyone. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { applyDelta, makeDelta } from "../log/delta.ts";
import { seeded } from "./support/scratch.ts";

const AMPLE = 1 << 20;

function check(base: Uint8Array, next: Uint8Array): Uint8Array {
  const delta = makeDelta(base, next, next.length + 64);
  assert.ok(delta !== undefined, "no room for a delta that is all insertions");
  assert.deepEqual(applyDelta(base, delta, AMPLE), next);
  return delta;
}

/** Bytes put together from pieces of others, and new ones: few different values, so that runs match by chance, too. */
const edit = fc.tuple(
  fc.uint8Array({ maxLength: 600, max: 5 }),
  fc.array(
    fc.oneof(
      fc.record({ from: fc.nat(600), length: fc.nat(400) }),
      fc.uint8Array({ maxLength: 40, max: 5 }),
    ),
    { maxLength: 8 },
  ),
).map(([base, pieces]): [Uint8Array, Uint8Array] => {
  const next = pieces.flatMap((piece) =>
    piece instanceof Uint8Array ? [...piece] : [...base.subarray(piece.from, piece.from + piece.length)]
  );
  return [base, new Uint8Array(next)];
});

describe("deltas", () => {
  it("give back any bytes", () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), fc.uint8Array({ maxLength: 300 }), (base, next) => {
      check(base, next);
    }));
    fc.assert(fc.property(edit, ([base, next]) => void check(base, next)), { numRuns: 3000 });
  });

  it("cost what has changed", () => {
    const random = seeded(3);
    const bytes = (length: number) => new Uint8Array(length).map(() => Math.floor(random() * 256));
    const base = bytes(100_000);
    const splice = (at: number, remove: number, add: number) =>
      new Uint8Array([...base.subarray(0, at), ...bytes(add), ...base.subarray(at + remove)]);
    assert.ok(check(base, base).length < 10);
    for (const at of [0, 1, 50_000, 99_000, 100_000]) {
      assert.ok(check(base, splice(at, 0, 500)).length < 520, `500 bytes added at ${at}`);
      assert.ok(check(base, splice(at, Math.min(100_000 - at, 5000), 10)).length < 40, `5000 removed at ${at}`);
    }
    // A number here and there, as in the head of each container.
    const touched = base.slice();
    for (let at = 7; at < touched.length; at += 1000) touched[at]! ^= 1;
    assert.ok(check(base, touched).length < 900);
    // What has been moved is found again.
    assert.ok(check(base, new Uint8Array([...base.subarray(60_000), ...base.subarray(0, 60_000)])).length < 40);
  });

  it("take no more than they may", () => {
    fc.assert(fc.property(edit, fc.nat(300), ([base, next], limit) => {
      const delta = makeDelta(base, next, limit);
      if (delta !== undefined) {
        assert.ok(delta.length <= limit);
        assert.deepEqual(applyDelta(base, delta, AMPLE), next);
      }
    }));
  });

  it("of other bytes are refused, or give what is no longer than allowed", () => {
    const base = new Uint8Array(100).fill(7);
    const hostile = (delta: Uint8Array) => {
      try {
        assert.ok(applyDelta(base, delta, 5000).length <= 5000);
      } catch (error) {
        assert.ok(error instanceof RangeError, String(error));
      }
    };
    fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), hostile), { numRuns: 5000 });
    const [good] = [check(base, new Uint8Array(300).map((_, i) => i < 90 ? 7 : i))];
    for (let at = 0; at < good!.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const bad = good!.slice();
        bad[at]! ^= 1 << bit;
        hostile(bad);
      }
      hostile(good!.subarray(0, at));
    }
  });
});
