/** The cache of node results. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type CacheKey, ThreadlogCache, ThreadlogSaver, ThreadlogStore } from "../../adapters/langgraph/mod.ts";
import { ThreadlogError } from "../../mod.ts";
import { withFile } from "./support/graphs.ts";

const key = (namespace: string, name: string): CacheKey => [namespace.split("/"), name];

describe("the cache", () => {
  it("gives what it has, and leaves the rest out", async () => {
    await withFile(async (path) => {
      {
        await using cache = await ThreadlogCache.open(path);
        await cache.set([
          { key: key("a", "one"), value: { n: new Map([[1, Uint8Array.of(1)]]) } },
          { key: key("a/b", "one"), value: "of b" },
        ]);
      }
      await using cache = await ThreadlogCache.open(path);
      assert.deepEqual(await cache.get([]), []);
      assert.deepEqual(await cache.get([key("a", "two"), key("a", "one"), key("a/b", "one"), key("a,b", "one")]), [
        { key: key("a", "one"), value: { n: new Map([[1, Uint8Array.of(1)]]) } },
        { key: key("a/b", "one"), value: "of b" },
      ]);
      await cache.clear([["a"]]);
      assert.deepEqual((await cache.get([key("a", "one"), key("a/b", "one")])).length, 1);
      await cache.clear([]);
      assert.deepEqual(await cache.get([key("a/b", "one")]), []);
      await cache.set([{ key: key("a", "one"), value: 2 }]);
      assert.deepEqual(await cache.get([key("a", "one")]), [{ key: key("a", "one"), value: 2 }]);
    });
  });

  it("forgets what is over, in seconds", async () => {
    let now = 1_000_000;
    await using cache = await ThreadlogCache.open<number>(":memory:", { now: () => now });
    await cache.set([{ key: key("a", "short"), value: 1, ttl: 10 }, { key: key("a", "long"), value: 2 }]);
    now += 9_999;
    assert.equal((await cache.get([key("a", "short"), key("a", "long")])).length, 2);
    now += 1;
    assert.deepEqual((await cache.get([key("a", "short"), key("a", "long")])).map(({ value }) => value), [2]);
  });

  it("refuses keys that are not ones", async () => {
    await using cache = await ThreadlogCache.open(":memory:");
    await assert.rejects(cache.get(["a" as never]), /A key of the cache/);
    await assert.rejects(cache.set([{ key: [["a"], 1] as never, value: 1 }]), /A key of the cache/);
    assert.equal(await cache.log.head(), 0);
  });
});

describe("each adapter", () => {
  for (const Adapter of [ThreadlogCache, ThreadlogSaver, ThreadlogStore]) {
    it(`takes its own options and the log's, and no others: ${Adapter.name}`, async () => {
      await using adapter = await Adapter.open(":memory:", { prefix: ["p"], maxValueBytes: 1000, now: () => 7 });
      await assert.rejects(adapter.log.thread("a").put("k", "x".repeat(2000)), /more than 1000 bytes/);
      assert.equal((await adapter.log.thread("a").put("k", 1)).time, 7);
      const isTold = (error: unknown) => error instanceof ThreadlogError && /Did you mean `prefix`/.test(error.message);
      await assert.rejects(async () => await Adapter.open(":memory:", { prefixes: ["p"] } as never), /no option/);
      assert.throws(() => new Adapter(adapter.log, { prefixe: ["p"] } as never), isTold);
    });
  }
});
