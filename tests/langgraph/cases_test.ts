/** Faults that users of other checkpointers reported (cases A18 to A34), as the saver must behave. */
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { describe, it } from "node:test";
import { JsonPlusSerializer, uuid6 } from "@langchain/langgraph-checkpoint";
import { ThreadlogSaver } from "../../adapters/langgraph/mod.ts";
import { at, checkpoint, idsOf, LOOP, put, valuesOf, withSaver } from "./support/graphs.ts";

describe("the saver", () => {
  it("A18 keeps each sibling's value, although both give it the same version", async () => {
    await withSaver(async (saver, reopen) => {
      const base = await put(saver, at("t"), "c0", { x: "base ".repeat(20) }, { x: 1 });
      const left = await put(saver, base, "c1", { x: "left ".repeat(20) }, { x: 2 });
      const right = await put(saver, base, "c2", { x: "right ".repeat(20) }, { x: 2 });
      for (const open of [() => saver, reopen]) {
        const one = await open();
        assert.deepEqual(await valuesOf(one, base), { x: "base ".repeat(20) });
        assert.deepEqual(await valuesOf(one, left), { x: "left ".repeat(20) });
        assert.deepEqual(await valuesOf(one, right), { x: "right ".repeat(20) });
      }
    });
  });

  it("A19 gives a fork nothing of the branch that was abandoned", async () => {
    await withSaver(async (saver, reopen) => {
      const base = await put(saver, at("t"), "c0", { messages: [1] }, { messages: 1 });
      await saver.putWrites(base, [["messages", 2]], "abandoned");
      await put(saver, base, "c1", { messages: [1, 2] }, { messages: 2 });
      await put(saver, base, "c2", { messages: [1, 3] }, { messages: 2 });
      const again = await reopen();
      assert.deepEqual(await valuesOf(again, at("t")), { messages: [1, 3] });
      assert.deepEqual((await again.getTuple(at("t")))?.pendingWrites, []);
    });
  });

  it("A20 follows the order of the log where the clock steps back", async () => {
    await withSaver(async (saver, reopen) => {
      const now = Date.now;
      try {
        const first = await put(saver, at("t"), uuid6(1), { n: 1 });
        Date.now = () => now() - 500;
        const earlierId = uuid6(2).replace(/^./, "0");
        await put(saver, first, earlierId, { n: 2 });
        assert.ok(earlierId < first.configurable!["checkpoint_id"], "the second id sorts first");
        for (const open of [() => saver, reopen]) {
          const one = await open();
          assert.deepEqual(await valuesOf(one, at("t")), { n: 2 });
          assert.deepEqual(await idsOf(one.list(at("t"))), [earlierId, first.configurable!["checkpoint_id"]]);
          assert.deepEqual(await idsOf(one.list(at("t"), { before: at("t", earlierId) })), [
            first.configurable!["checkpoint_id"],
          ]);
        }
      } finally {
        Date.now = now;
      }
    });
  });

  it("A21 takes ids that don't sort", async () => {
    await withSaver(async (saver) => {
      const two = await put(saver, at("t"), "2", { n: 2 });
      await put(saver, two, "10", { n: 10 });
      assert.equal((await saver.getTuple(at("t")))?.checkpoint.id, "10");
      const z = await put(saver, at("u"), "z", { n: 1 });
      await saver.putWrites(z, [["log", "written on z"]], "task");
      await put(saver, z, "a", {});
      const { log } = await saver.getDeltaChannelHistory({ config: at("u", "a"), channels: ["log"] });
      assert.deepEqual(log?.writes, [["task", "log", "written on z"]]);
      assert.deepEqual(await idsOf(saver.list(at("u"), { before: at("u", "a") })), ["z"]);
    });
  });

  it("A22 keeps channels that a later put doesn't declare", async () => {
    await withSaver(async (saver, reopen) => {
      const first = await put(saver, at("t"), "c0", { messages: ["hello"], count: 1 }, { messages: 1, count: 1 });
      await saver.put(first, checkpoint("c1", { count: 2 }, { messages: 1, count: 2 }), LOOP, { count: 2 });
      assert.deepEqual(await valuesOf(await reopen(), at("t")), { messages: ["hello"], count: 2 });
    });
  });

  it("A23 keeps the order of calls, and an identical retry is nothing new", async () => {
    await withSaver(async (saver, reopen) => {
      const first = await put(saver, at("t"), "c0", { n: 0 });
      const writes = saver.putWrites(first, [["n", 1], ["log", "x"]], "task", "path");
      const next = put(saver, first, "c1", { n: 1 }, { n: 2 });
      await Promise.all([writes, next]);
      // Whatever a crash leaves is a prefix of the log: what is written first in it is there if the second is.
      const order: string[] = [];
      for await (const { thread } of saver.log.read()) order.push(String(thread.at(-1)));
      assert.deepEqual(order, ["", "writes", ""]);
      const head = await saver.log.head();
      const again = await reopen();
      await again.putWrites(first, [["n", 1], ["log", "x"]], "task", "path");
      await put(again, first, "c1", { n: 1 }, { n: 2 });
      assert.equal(await again.log.head(), head);
      assert.deepEqual((await again.getTuple(first))?.pendingWrites, [["task", "n", 1], ["task", "log", "x"]]);
    });
  });

  it("A23 keeps the order of calls although the first takes longer to encode", async () => {
    const plain = new JsonPlusSerializer();
    const serde = {
      async dumpsTyped(value: unknown): Promise<[string, Uint8Array]> {
        if (value === "slow") await new Promise((resolve) => setTimeout(resolve, 20));
        return await plain.dumpsTyped(value);
      },
      loadsTyped: (type: string, bytes: Uint8Array) => plain.loadsTyped(type, bytes),
    };
    await withSaver(async (saver) => {
      await Promise.all([
        saver.putWrites(at("t", "c0"), [["n", "slow"]], "task"),
        put(saver, at("t"), "c1", { n: "fast" }),
        put(saver, at("t", "c1"), "c2", {}, { n: 1 }),
      ]);
      const order: string[] = [];
      for await (const { thread } of saver.log.read()) order.push(String(thread.at(-1)));
      assert.deepEqual(order, ["writes", "channels", "", ""]);
      assert.equal((await saver.getTuple(at("t")))?.checkpoint.id, "c2");
    }, { serde });
  });

  it("A23 takes a retry for one, whatever was put in between", async () => {
    await withSaver(async (saver) => {
      const messages = Array.from({ length: 50 }, (_, i) => `message ${i}`);
      const first = await put(saver, at("t"), "c0", { messages }, { messages: 1 });
      const second = await put(saver, first, "c1", { messages: [...messages, "more"] }, { messages: 2 });
      await put(saver, second, "c2", { messages: ["others"] }, { messages: 3 });
      const head = await saver.log.head();
      await put(saver, first, "c1", { messages: [...messages, "more"] }, { messages: 2 });
      assert.equal(await saver.log.head(), head);
      await put(saver, first, "c1", { messages: [...messages, "other"] }, { messages: 2 });
      assert.deepEqual(await valuesOf(saver, second), { messages: [...messages, "other"] });
      assert.deepEqual(await valuesOf(saver, at("t")), { messages: ["others"] });
    });
  });

  it("A26 takes filters of any key, and an absent key matches nothing", async () => {
    await withSaver(async (saver) => {
      const hostile = `a'] = 1 OR 1=1 --"."`;
      await put(saver, at("t"), "c0", {}, {}, { ...LOOP, [hostile]: 1, score: 10 } as typeof LOOP);
      await put(saver, at("t"), "c1", {}, {}, { ...LOOP, score: 9 } as typeof LOOP);
      const find = (filter: Record<string, unknown>) => idsOf(saver.list(at("t"), { filter }));
      assert.deepEqual(await find({ [hostile]: 1 }), ["c0"]);
      assert.deepEqual(await find({ [hostile]: 2 }), []);
      assert.deepEqual(await find({ absent: undefined }), []);
      assert.deepEqual(await find({ toString: undefined, source: "loop" }), []);
      assert.deepEqual(await find({ score: 9 }), ["c1"]);
      assert.deepEqual(await find({ source: "loop" }), ["c1", "c0"]);
      assert.deepEqual(await find({ parents: {} }), ["c1", "c0"]);
    });
  });

  it("A28 stores threads of any name, and changes no prototype", async () => {
    await withSaver(async (saver) => {
      for (const name of ["__proto__", "constructor", "a\0b", "a/b|c"]) {
        await put(saver, at(name), name, { [name]: name });
        assert.deepEqual(Object.entries((await valuesOf(saver, at(name)))!), [[name, name]]);
      }
      assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
      assert.equal(Object.getOwnPropertyNames(Object.prototype).includes("a/b|c"), false);
    });
  });

  it("A34 grows with what changes, and resumes from what pruning keeps", { timeout: 60_000 }, async () => {
    await withSaver(async (saver, reopen, path) => {
      let config = at("t");
      const messages: { role: string; content: string }[] = [];
      const sizes: number[] = [];
      for (let turn = 0; turn < 400; turn++) {
        messages.push({ role: "user", content: `${turn} `.padEnd(1000, "abcdefgh") });
        config = await put(saver, config, `c${turn}`, { messages }, { messages: turn + 1 });
        if ((turn + 1) % 200 === 0) {
          saver = await reopen();
          sizes.push(statSync(path).size);
        }
      }
      // Whole values would take 80 MB, and the second half three times the first.
      assert.ok(sizes[1]! < 16_000_000, `${sizes[1]} bytes`);
      assert.equal(await saver.prune("t", { keepLast: 10 }), 390);
      const last = Array.from({ length: 10 }, (_, i) => `c${399 - i}`);
      assert.deepEqual(await idsOf(saver.list(at("t"))), last);
      assert.deepEqual(await valuesOf(saver, at("t", "c390")), { messages: messages.slice(0, 391) });
      assert.deepEqual(await valuesOf(saver, at("t")), { messages });
    }, { durability: "normal" });
  });

  it("A34 sees what another process has put since", async () => {
    await withSaver(async (first, _, path) => {
      await using second = await ThreadlogSaver.open(path);
      const config = await put(first, at("t"), "c0", { n: 0 });
      assert.deepEqual(await valuesOf(second, at("t")), { n: 0 });
      await put(second, config, "c1", { n: 1 }, { n: 2 });
      await first.log.refresh();
      assert.deepEqual(await valuesOf(first, at("t")), { n: 1 });
    });
  });

  it("A34 leaves nothing of a thread that is deleted", async () => {
    await withSaver(async (saver) => {
      const config = await put(saver, at("t"), "c0", { secret: ["hunter2"] });
      await saver.putWrites(config, [["secret", "hunter2"]], "task");
      await put(saver, at("t", undefined, "child:1"), "c0", { secret: ["hunter2"] });
      await put(saver, at("tt"), "c0", { n: 1 });
      await saver.deleteThread("t");
      assert.deepEqual(await idsOf(saver.list({})), ["c0"]);
      assert.equal(await saver.getTuple(at("t", "c0")), undefined);
      assert.equal(await saver.getTuple(at("t", undefined, "child:1")), undefined);
      const { events } = await saver.log.stats();
      assert.equal(events, 1 + 5, "one checkpoint, and a tombstone for each thread of the log");
      await put(saver, at("t"), "c0", { n: 2 });
      assert.deepEqual(await valuesOf(saver, at("t")), { n: 2 });
      assert.deepEqual((await saver.getTuple(at("t")))?.pendingWrites, []);
    });
  });
});
