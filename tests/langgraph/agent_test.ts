/**
 * A whole agent graph, cut off at every write and at every superstep: it must end as it would have. The graph is the
 * demo's (cli/graph_agent.ts).
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import process from "node:process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { RunnableConfig } from "@langchain/core/runnables";
import { MemorySaver } from "@langchain/langgraph-checkpoint";
import { ThreadlogSaver } from "../../adapters/langgraph/mod.ts";
import { AGENT_THREAD, buildAgent, runToEnd, type Snapshot, type State } from "../../cli/graph_agent.ts";
import { withFile } from "./support/graphs.ts";

const DEMO = fileURLToPath(new URL("../../cli/demo_graph.ts", import.meta.url));

/** Lets so many writes through, and fails the rest, as if the process were gone. Gives the number that were asked for. */
function failAfter(saver: ThreadlogSaver, limit: number): () => number {
  let count = 0;
  for (const name of ["put", "putWrites"] as const) {
    const write = (saver[name] as (...args: unknown[]) => Promise<unknown>).bind(saver);
    (saver as unknown as Record<string, unknown>)[name] = (...args: unknown[]) =>
      ++count > limit ? Promise.reject(new Error("gone")) : write(...args);
  }
  return () => count;
}

describe("an agent", () => {
  it("ends as it does on LangGraph's own saver", async () => {
    const expected = await runToEnd(new MemorySaver());
    assert.equal(expected.messages.length, 6);
    assert.equal(expected.sources.length, 3);
    assert.equal(expected.risk, "low (3 sources)");
    await using saver = await ThreadlogSaver.open(":memory:");
    assert.deepEqual(await runToEnd(saver), expected);
  });

  it("ends the same wherever its writes stop, and it goes on from the file", { timeout: 120_000 }, async () => {
    const expected = await runToEnd(new MemorySaver());
    let writes = 0;
    {
      await using saver = await ThreadlogSaver.open(":memory:");
      const count = failAfter(saver, Infinity);
      await runToEnd(saver);
      writes = count();
    }
    assert.ok(writes > 30, `${writes} writes`);
    for (let limit = 0; limit < writes; limit++) {
      await withFile(async (path) => {
        const cut = await ThreadlogSaver.open(path, { durability: "normal" });
        failAfter(cut, limit);
        await assert.rejects(runToEnd(cut), /gone/, `${limit} writes`);
        await cut.close();
        await using saver = await ThreadlogSaver.open(path);
        assert.deepEqual(await runToEnd(saver), expected, `after ${limit} writes`);
      });
    }
  });

  it("can be taken back to any step, and goes another way from there", async () => {
    await using saver = await ThreadlogSaver.open(":memory:");
    await runToEnd(saver);
    const agent = buildAgent(saver);
    const before: Snapshot<State>[] = [];
    for await (const state of agent.getStateHistory(AGENT_THREAD)) before.push(state);
    const asked = before.find(({ next }) => next.includes("approve"))!;
    const head = await saver.log.head();
    const refused = await agent.updateState(asked.config, { approved: false }, "approve");
    await agent.invoke(null, refused);
    const state = await agent.getState(AGENT_THREAD);
    assert.deepEqual([state.values.approved, state.next, state.values.messages.length], [false, [], 4]);
    // The first way is still there.
    assert.equal((await agent.getState(before[0]!.config)).values.messages.length, 6);
    const copied = await agent.updateState(asked.config, null, "__copy__");
    assert.deepEqual((await agent.getState(copied)).values, (await agent.getState(asked.config)).values);
    assert.ok(await saver.log.head() > head);
    // The first checkpoint has no parent that a copy could share with.
    const first = before.at(-1)!;
    const restarted = await agent.updateState(first.config, null, "__copy__");
    const start = async (config: RunnableConfig) =>
      (await saver.getTuple(config))?.checkpoint.channel_values["__start__"];
    assert.deepEqual(await start(restarted), await start(first.config));
  });

  it("is killed by the demo after every checkpoint, and ends the same", { timeout: 180_000 }, async () => {
    const runtime = "Deno" in globalThis
      ? ["run", "--allow-all", "--no-check", "--quiet"]
      : process.execArgv.filter((arg) => /strip-types|warning/.test(arg));
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
    const child = spawn(process.execPath, [...runtime, DEMO], { env, stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    child.stdout.on("data", (chunk) => text += chunk);
    child.stderr.on("data", (chunk) => text += chunk);
    const code = await new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) => resolve(code ?? signal));
    });
    assert.equal(code, 0, text);
    assert.match(text, /The same end, word for word/);
    assert.ok(Number(/(\d+) processes were killed/.exec(text)?.[1]) >= 14, text);
  });
});
