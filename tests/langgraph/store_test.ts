/** The store: what LangGraph's contract says, and what other stores get wrong, by the numbers of langgraph.md. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  AsyncBatchedStore,
  InMemoryStore,
  InvalidNamespaceError,
  type Operation,
} from "@langchain/langgraph-checkpoint";
import { HumanMessage } from "@langchain/core/messages";
import * as fc from "fast-check";
import { type StoreOptions, ThreadlogStore } from "../../adapters/langgraph/mod.ts";
import { openLog, ThreadlogError } from "../../mod.ts";
import { withFile } from "./support/graphs.ts";

async function withStore(run: (store: ThreadlogStore) => Promise<void>, options: StoreOptions = {}): Promise<void> {
  await using store = await ThreadlogStore.open(":memory:", options);
  await run(store);
}

async function keysOf(found: Promise<{ key: string }[]>): Promise<string[]> {
  return (await found).map(({ key }) => key);
}

const code = (wanted: string) => (error: unknown) => error instanceof ThreadlogError && error.code === wanted;

describe("the store", () => {
  it("keeps, changes, finds and deletes items, in memory and in a file", async () => {
    await withFile(async (path) => {
      for (const target of [":memory:", path]) {
        await using store = await ThreadlogStore.open(target);
        await store.put(["users", "1"], "tone", { text: "formal" });
        const first = await store.get(["users", "1"], "tone");
        assert.deepEqual(first?.value, { text: "formal" });
        assert.deepEqual(first?.namespace, ["users", "1"]);
        assert.ok(first?.createdAt instanceof Date && first.updatedAt instanceof Date);
        await store.put(["users", "1"], "tone", { text: "casual" });
        const second = await store.get(["users", "1"], "tone");
        assert.deepEqual(second?.createdAt, first?.createdAt);
        assert.deepEqual((await store.search(["users"])).map(({ value }) => value), [{ text: "casual" }]);
        await store.delete(["users", "1"], "tone");
        assert.equal(await store.get(["users", "1"], "tone"), null);
        assert.equal(await store.get([], "tone"), null);
      }
      await using again = await ThreadlogStore.open(path);
      assert.deepEqual(await again.listNamespaces(), []);
    });
  });

  it("3 and A27 keeps tenants apart whose names begin alike", async () => {
    await withStore(async (store) => {
      await store.put(["tenant", "acme"], "a", { n: 1 });
      await store.put(["tenant", "acme-corp"], "b", { n: 2 });
      await store.put(["tenant", "acme", "deeper"], "c", { n: 3 });
      await store.put(["users", "1"], "d", {});
      await store.put(["users", "12"], "e", {});
      assert.deepEqual(await keysOf(store.search(["tenant", "acme"])), ["a", "c"]);
      assert.deepEqual(await keysOf(store.search(["users", "1"])), ["d"]);
      assert.deepEqual(await keysOf(store.search([])), ["a", "c", "b", "d", "e"]);
    });
  });

  it("6 does a batch in order and writes it whole", async () => {
    await withStore(async (store) => {
      const results = await store.batch([
        { namespace: ["a"], key: "k", value: { n: 1 } },
        { namespace: ["a"], key: "k" },
        { namespacePrefix: ["a"] },
        { namespace: ["a"], key: "k", value: { n: 2 } },
        { namespace: ["a"], key: "k" },
        { namespace: ["b"], key: "k", value: { n: 3 } },
        { limit: 10, offset: 0 },
        { namespace: ["a"], key: "k", value: null },
        { namespace: ["a"], key: "k" },
        { limit: 10, offset: 0 },
      ] as Operation[]) as unknown[];
      const value = (result: unknown) => (result as { value: unknown } | null)?.value;
      assert.deepEqual(value(results[1]), { n: 1 });
      assert.deepEqual((results[2] as unknown[]).map(value), [{ n: 1 }]);
      assert.deepEqual(value(results[4]), { n: 2 });
      assert.deepEqual(results[6], [["a"], ["b"]]);
      assert.equal(results[8], null);
      assert.deepEqual(results[9], [["b"]]);
      const head = await store.log.head();
      assert.equal(head, 1);
      // One that is refused refuses all.
      const broken = [{ namespace: ["c"], key: "k", value: { n: 1 } }, {
        namespace: ["c"],
        key: "l",
        value: { f: () => {} },
      }];
      await assert.rejects(store.batch(broken as Operation[]), code("unencodable"));
      assert.equal(await store.log.head(), head);
    });
  });

  it("6 cuts namespaces before it counts them, and lets * stand for one label", async () => {
    await withStore(async (store) => {
      for (const namespace of [["a", "x", "1"], ["a", "x", "2"], ["a", "y", "1"], ["b", "x", "1"], ["b"]]) {
        await store.put(namespace, "k", {});
      }
      assert.deepEqual(await store.listNamespaces({ maxDepth: 2, limit: 2 }), [["a", "x"], ["a", "y"]]);
      assert.deepEqual(await store.listNamespaces({ maxDepth: 2, limit: 2, offset: 2 }), [["b"], ["b", "x"]]);
      assert.deepEqual(await store.listNamespaces({ maxDepth: 1 }), [["a"], ["b"]]);
      assert.deepEqual(await store.listNamespaces({ prefix: ["*", "x"] }), [["a", "x", "1"], ["a", "x", "2"], [
        "b",
        "x",
        "1",
      ]]);
      assert.deepEqual(await store.listNamespaces({ suffix: ["x", "*"] }), [["a", "x", "1"], ["a", "x", "2"], [
        "b",
        "x",
        "1",
      ]]);
      assert.deepEqual(await store.listNamespaces({ prefix: ["a"], suffix: ["1"] }), [["a", "x", "1"], [
        "a",
        "y",
        "1",
      ]]);
    });
  });

  it("6 knows all operators and refuses others", async () => {
    await withStore(async (store) => {
      await store.put(["s"], "a", { score: 9, tag: "x", sole: true, nested: { n: [1] } });
      await store.put(["s"], "b", { score: 10, tag: "y" });
      await store.put(["s"], "c", { score: 100, tag: null });
      await store.put(["s"], "d", { tag: "10" });
      const find = (filter: Record<string, unknown>) => keysOf(store.search(["s"], { filter }));
      const wanted: [Record<string, unknown>, string[]][] = [
        [{ score: 9 }, ["a"]],
        [{ score: { $eq: 10 } }, ["b"]],
        [{ score: { $ne: 10 } }, ["a", "c"]],
        [{ score: { $gt: 10 } }, ["c"]],
        [{ score: { $gte: 10 } }, ["b", "c"]],
        [{ score: { $lt: 10 } }, ["a"]],
        [{ score: { $lte: 10 } }, ["a", "b"]],
        [{ score: { $gt: 9, $lt: 100 } }, ["b"]],
        [{ score: { $gte: "10" } }, ["b", "c"]],
        [{ tag: { $in: ["x", null] } }, ["a", "c"]],
        [{ tag: { $nin: ["x", null] } }, ["b", "d"]],
        [{ sole: { $exists: true } }, ["a"]],
        [{ sole: { $exists: false } }, ["b", "c", "d"]],
        [{ nested: { n: [1] } }, ["a"]],
        [{ toString: { $ne: 1 } }, []],
        [{ constructor: { $exists: true } }, []],
        [{ "a'] OR 1=1 --": 1 }, []],
        [{}, ["a", "b", "c", "d"]],
      ];
      for (const [filter, keys] of wanted) assert.deepEqual(await find(filter), keys, JSON.stringify(filter));
      for (const filter of [{ a: { $regex: "x" } }, { a: { $gt: "" } }, { a: { $in: 1 } }, { a: { $gt: 1, b: 2 } }]) {
        await assert.rejects(find(filter), code("invalid_argument"));
      }
    });
  });

  it("7 runs equal reads of a tick once, and each caller has its own", async () => {
    await withStore(async (store) => {
      await store.put(["a"], "k", { list: [1] });
      let reads = 0;
      const thread = store.log.thread.bind(store.log);
      store.log.thread = ((id: string[]) => (reads++, thread(id))) as typeof thread;
      const found = await Promise.all(Array.from({ length: 50 }, () => store.get(["a"], "k")));
      assert.equal(reads, 1);
      (found[0]!.value["list"] as number[]).push(2);
      assert.deepEqual(found[1]!.value, { list: [1] });
      assert.deepEqual((await store.get(["a"], "k"))?.value, { list: [1] });
    });
  });

  it("7 takes 20,000 reads of a tick in linear time", async () => {
    await withStore(async (store) => {
      await store.put(["a"], "k", { n: 1 });
      const time = async (count: number) => {
        let best = Infinity;
        for (let round = 0; round < 4; round++) {
          const start = performance.now();
          await Promise.all(Array.from({ length: count }, (_, i) => store.get(["a"], `k${i}`)));
          best = Math.min(best, performance.now() - start);
        }
        return best;
      };
      const [small, large] = [await time(2_000), await time(20_000)];
      // Ten times as many; a search through those that wait would make it a hundred.
      assert.ok(large < 40 * small + 100, `${small} ms, then ${large} ms`);
    });
  });

  it("7 serves LangGraph's own wrapper", async () => {
    await withStore(async (store) => {
      const batched = new AsyncBatchedStore(store);
      batched.start();
      await batched.put(["a"], "k", { n: 1 });
      const [one, two] = await Promise.all([batched.get(["a"], "k"), batched.search(["a"])]);
      assert.deepEqual([one?.value, two[0]?.value], [{ n: 1 }, { n: 1 }]);
      await batched.stop();
    });
  });

  it("8 stops reading where a search is full", async () => {
    await withStore(async (store) => {
      await store.batch(
        Array.from({ length: 5_000 }, (_, i) => ({ namespace: ["big"], key: `${i}`.padStart(5, "0"), value: { i } })),
      );
      assert.deepEqual(await keysOf(store.search(["big"], { limit: 3, offset: 2 })), ["00002", "00003", "00004"]);
      const time = async (limit: number) => {
        const start = performance.now();
        for (let i = 0; i < 20; i++) assert.equal((await store.search(["big"], { limit })).length, limit);
        return performance.now() - start;
      };
      await time(10);
      assert.ok(await time(10) < await time(5_000) / 5);
    });
  });

  it("8 lists no namespace that has nothing in it, and hands out nothing live", async () => {
    await withStore(async (store) => {
      const value = { list: [1] };
      await store.put(["a"], "k", value);
      value.list.push(2);
      const item = await store.get(["a"], "k");
      (item!.value["list"] as number[]).push(3);
      assert.deepEqual((await store.get(["a"], "k"))?.value, { list: [1] });
      await store.delete(["a"], "k");
      assert.deepEqual(await store.listNamespaces(), []);
    });
  });

  it("refuses namespaces that are not ones, and writes nothing", async () => {
    await withStore(async (store) => {
      const bad: unknown[] = [[], ["langgraph"], ["a.b"], ["a:b"], ["a\0"], [""], ["a", 1], "a", undefined];
      for (const namespace of bad) {
        await assert.rejects(
          store.put(namespace as string[], "k", {}),
          InvalidNamespaceError,
          JSON.stringify(namespace),
        );
      }
      await assert.rejects(store.search(["a.b"]), InvalidNamespaceError);
      await assert.rejects(store.get(["a:b"], "k"), InvalidNamespaceError);
      await assert.rejects(store.listNamespaces({ prefix: [""] }), InvalidNamespaceError);
      await assert.rejects(store.batch([{ namespace: [], key: "k", value: {} }]), InvalidNamespaceError);
      await assert.rejects(store.put(["a"], 1 as never, {}), code("invalid_id"));
      await assert.rejects(store.put(["a"], "k", 1 as never), code("invalid_argument"));
      await assert.rejects(store.search(["a"], { limit: -1 }), code("invalid_argument"));
      await assert.rejects(store.put(["a"], "k", {}, undefined, { ttl: 0 }), code("invalid_argument"));
      assert.equal(await store.log.head(), 0);
      await store.batch([{ namespace: ["langgraph", "x"], key: "k", value: { n: 1 } }]);
      assert.deepEqual((await store.get(["langgraph", "x"], "k"))?.value, { n: 1 });
    });
  });

  it("refuses one operation of a tick without the others", async () => {
    await withStore(async (store) => {
      const results = await Promise.allSettled([
        store.put(["a"], "k", { n: 1 }),
        store.put(["a.b"], "k", {}),
        store.get(["a"], "k"),
      ]);
      assert.deepEqual(results.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled"]);
    });
  });

  it("brings back the types that it can keep, LangChain's own classes too, and refuses the rest", async () => {
    await withFile(async (path) => {
      const value = { date: new Date(0), map: new Map([[1, [2]]]), bytes: Uint8Array.of(1), big: 2n ** 70n };
      const message = { at: new Date(0), list: [new HumanMessage({ content: "hello", id: "1" })] };
      {
        await using store = await ThreadlogStore.open(path);
        await store.put(["a"], "plain", value);
        await store.put(["a"], "message", message);
        class Own {
          n = 1;
        }
        for (const bad of [{ own: new Own() }, { list: [() => {}] }, { list: [new HumanMessage("x"), Symbol("s")] }]) {
          await assert.rejects(store.put(["a"], "bad", bad), code("unencodable"));
        }
      }
      await using store = await ThreadlogStore.open(path);
      assert.deepEqual((await store.get(["a"], "plain"))?.value, value);
      const back = (await store.get(["a"], "message"))?.value as typeof message;
      assert.deepEqual(back.at, new Date(0));
      assert.ok(back.list[0] instanceof HumanMessage);
      assert.equal(back.list[0].content, "hello");
      assert.equal(await store.get(["a"], "bad"), null);
    });
  });

  it("agrees with InMemoryStore on any sequence of operations", async () => {
    const label = fc.constantFrom("a", "b", "ab", "__proto__");
    const namespace = fc.array(label, { minLength: 1, maxLength: 3 });
    const key = fc.constantFrom("k", "l", "constructor");
    const operation = fc.oneof(
      fc.record({
        namespace,
        key,
        value: fc.oneof(fc.constant(null), fc.record({ n: fc.integer({ min: 0, max: 3 }) }, { noNullPrototype: true })),
      }),
      fc.record({ namespace, key }),
      fc.record({ namespacePrefix: fc.array(label, { maxLength: 2 }), limit: fc.constant(100) }),
      fc.record({
        namespacePrefix: fc.array(label, { maxLength: 2 }),
        filter: fc.record({ n: fc.record({ $gte: fc.integer({ min: 0, max: 3 }) }) }),
        limit: fc.constant(100),
      }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { maxLength: 20 }), async (operations) => {
        const theirs = new InMemoryStore();
        await withStore(async (ours) => {
          for (const one of operations as Operation[]) {
            const [a] = await ours.batch([one]) as unknown[];
            const [b] = await theirs.batch([one]) as unknown[];
            assert.deepEqual(shape(a), shape(b));
          }
        });
      }),
      { numRuns: 60 },
    );
  });
});

/** A result without times and order. */
function shape(result: unknown): unknown {
  if (Array.isArray(result)) return result.map((one) => JSON.stringify(shape(one))).sort();
  if (result === null || result === undefined) return null;
  const { namespace, key, value } = result as Record<string, unknown>;
  return { namespace, key, value: { ...value as object } };
}

describe("time to live", () => {
  it("counts on reading, swept or not", async () => {
    let now = 1_000_000;
    await withStore(async (store) => {
      await store.put(["a"], "minute", { n: 1 });
      await store.put(["a"], "hour", { n: 2 }, undefined, { ttl: 60 });
      await store.put(["b"], "ever", { n: 3 }, undefined, { ttl: null });
      now += 60_000;
      assert.equal(await store.get(["a"], "minute"), null);
      assert.deepEqual(await keysOf(store.search([])), ["hour", "ever"]);
      const head = await store.log.head();
      assert.equal(await store.sweep(), 1);
      assert.equal(await store.sweep(), 0);
      assert.ok(await store.log.head() > head);
      now += 60 * 60_000;
      assert.deepEqual(await store.listNamespaces(), [["b"]]);
      await store.put(["a"], "minute", { n: 4 });
      assert.deepEqual((await store.get(["a"], "minute"))?.createdAt, new Date(now));
    }, { now: () => now, ttl: { defaultTtl: 1, refreshOnRead: false } });
  });

  it("begins anew when the item is read", async () => {
    let now = 1_000_000;
    await withStore(async (store) => {
      await store.put(["a"], "k", { n: 1 });
      const put = await store.get(["a"], "k");
      for (let i = 0; i < 5; i++) {
        now += 45_000;
        assert.equal((await store.search(["a"])).length, 1);
        now += 45_000;
        assert.deepEqual((await store.get(["a"], "k"))?.updatedAt, put?.updatedAt);
      }
      const head = await store.log.head();
      await store.get(["a"], "k");
      assert.equal(await store.log.head(), head, "a second read at once writes nothing");
      now += 60_001;
      assert.equal(await store.get(["a"], "k"), null);
    }, { now: () => now, ttl: { defaultTtl: 1 } });
  });
});

/** Counts letters a, b and c; counts its own calls too. */
class Letters {
  documents: string[][] = [];
  queries: string[] = [];
  embedDocuments(texts: string[]): Promise<number[][]> {
    this.documents.push(texts);
    return Promise.resolve(texts.map(vectorOf));
  }
  embedQuery(text: string): Promise<number[]> {
    this.queries.push(text);
    return Promise.resolve(vectorOf(text));
  }
}

function vectorOf(text: string): number[] {
  return ["a", "b", "c"].map((letter) => text.split(letter).length - 1);
}

describe("search by meaning", () => {
  const index = (embeddings: Letters, fields?: string[]) => ({
    dims: 3,
    embeddings: embeddings as never,
    ...(fields && { fields }),
  });

  it("finds the nearest first, then what has no vector, and skips and filters", async () => {
    const letters = new Letters();
    await withFile(async (path) => {
      const check = async (store: ThreadlogStore) => {
        const found = await store.search(["d"], { query: "a" });
        assert.deepEqual(found.map(({ key }) => key), ["a", "ab", "b", "none"]);
        assert.ok(Math.abs(found[0]!.score! - 1) < 1e-6 && Math.abs(found[1]!.score! - Math.SQRT1_2) < 1e-6);
        assert.equal(found[3]!.score, undefined);
        assert.deepEqual(await keysOf(store.search(["d"], { query: "a", limit: 1, offset: 1 })), ["ab"]);
        assert.deepEqual(await keysOf(store.search(["d"], { query: "a", filter: { n: { $gte: 2 } } })), [
          "ab",
          "b",
          "none",
        ]);
      };
      {
        await using store = await ThreadlogStore.open(path, { index: index(letters, ["text"]) });
        await store.put(["d"], "a", { text: "aaa", n: 1 });
        await store.put(["d"], "b", { text: "b", n: 2 });
        await store.put(["d", "e"], "ab", { text: "ab", n: 3 });
        await store.put(["d"], "none", { text: "a", n: 4 }, false);
        await check(store);
        assert.equal(store.indexConfig?.dims, 3);
      }
      await using again = await ThreadlogStore.open(path, { index: index(letters, ["text"]) });
      await check(again);
      await again.put(["d"], "a", { text: "c", n: 1 });
      assert.deepEqual(await keysOf(again.search(["d"], { query: "a", limit: 1 })), ["ab"]);
      await again.delete(["d", "e"], "ab");
      assert.deepEqual(await keysOf(again.search(["d"], { query: "a", filter: { n: { $lt: 4 } } })), ["a", "b"]);
    });
  });

  it("embeds a batch in one call, and a text once", async () => {
    const letters = new Letters();
    await withStore(async (store) => {
      await Promise.all(Array.from({ length: 10 }, (_, i) => store.put(["d"], `${i}`, { text: "abc"[i % 3] })));
      assert.deepEqual(letters.documents, [["a", "b", "c"]]);
      await store.put(["d"], "again", { text: "b" });
      assert.equal(letters.documents.length, 1);
      await Promise.all([store.search(["d"], { query: "q" }), store.search(["d"], { query: "q", limit: 2 })]);
      assert.deepEqual(letters.queries, ["q"]);
    }, { index: index(letters, ["text"]) });
  });

  it("takes an item's best text, and finds texts by paths", async () => {
    const letters = new Letters();
    await withStore(async (store) => {
      await store.put(["d"], "many", { parts: [{ text: "b" }, { text: "a" }], meta: { title: "c" } });
      assert.deepEqual(letters.documents[0], ["b", "a", "c"]);
      await store.put(["d"], "own", { other: "c" }, ["other"]);
      const [first, second] = await store.search(["d"], { query: "a" });
      assert.equal(first?.key, "many");
      assert.ok(Math.abs(first!.score! - 1) < 1e-6);
      assert.deepEqual([second?.key, second?.score], ["own", 0]);
    }, { index: index(letters, ["parts[*].text", "{meta.title}", "parts[-1].text", "absent"]) });
  });

  it("refuses vectors of another length, and keeps nothing of the put", async () => {
    const broken = { embedDocuments: () => Promise.resolve([[1, 2]]), embedQuery: () => Promise.resolve([1]) };
    await withStore(async (store) => {
      await assert.rejects(store.put(["d"], "k", { text: "a" }), code("invalid_argument"));
      await assert.rejects(store.search(["d"], { query: "a" }), code("invalid_argument"));
      assert.equal(await store.log.head(), 0);
      await store.put(["d"], "k", { text: "a" }, false);
      assert.deepEqual((await store.get(["d"], "k"))?.value, { text: "a" });
    }, { index: { dims: 3, embeddings: broken as never } });
  });
});

describe("one log", () => {
  it("holds stores side by side that don't see each other", async () => {
    await using log = await openLog(":memory:");
    const [one, two] = [new ThreadlogStore(log), new ThreadlogStore(log, { prefix: ["two"] })];
    await one.put(["a"], "k", { n: 1 });
    await two.put(["a"], "k", { n: 2 });
    assert.deepEqual((await one.search([])).map(({ value }) => value), [{ n: 1 }]);
    assert.deepEqual((await two.search([])).map(({ value }) => value), [{ n: 2 }]);
  });
});
