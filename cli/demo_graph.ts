/**
 * The LangGraph demo: `npm run demo:graph`. An agent with tools, a subgraph, lookups in parallel and a person to ask is
 * killed after every single checkpoint, and ends as if nothing had happened. Runs on Bun, Deno and Node.
 *
 * @module
 */

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { ThreadlogSaver } from "../adapters/langgraph/mod.ts";
import { AGENT_THREAD, type Outcome } from "./graph_agent.ts";
import { heading, paint, say } from "./screen.ts";

const PROGRAM = fileURLToPath(new URL("./graph_run.ts", import.meta.url));
/** More would mean that a killed process left nothing for the next one. */
const MAX_KILLS = 100;

/** Runs the agent in a process of its own; undefined if it was killed. */
function run(path: string, ...limit: string[]): Promise<Outcome | undefined> {
  const runtime = "Deno" in globalThis ? ["run", "--allow-all", "--no-check", "--quiet"] : process.execArgv;
  const child = spawn(process.execPath, [...runtime, PROGRAM, path, ...limit], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => text += chunk);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (signal === "SIGKILL" || code === 137) resolve(undefined);
      else if (code === 0) resolve(JSON.parse(text) as Outcome);
      else reject(new Error(`The agent failed (${code ?? signal})`));
    });
  });
}

async function showHistory(path: string): Promise<void> {
  await using saver = await ThreadlogSaver.open(path);
  let count = 0;
  for await (const { config, metadata } of saver.list({})) {
    const { thread_id, checkpoint_ns } = config.configurable as Record<string, string>;
    count++;
    const where = checkpoint_ns === "" ? thread_id : `${thread_id} > ${checkpoint_ns!.split(":")[0]}`;
    say(`   ${String(metadata?.step).padStart(3)}  ${metadata?.source.padEnd(6)} ${where}`);
  }
  const changed = await saver.blame(AGENT_THREAD, "approved");
  const newest = await saver.getTuple(AGENT_THREAD);
  const step = (await saver.getTuple(changed!))?.metadata?.step;
  say(`   ${count} checkpoints; "approved" was last changed at step ${step} of ${newest?.metadata?.step}`);
  say(`   the log is ${(await saver.log.verify()).ok ? "whole" : "damaged"}`);
}

async function main(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "threadlog-graph-"));
  try {
    say(paint("bold", "A LangGraph agent on Threadlog, killed after every checkpoint"));
    await heading(1, "Once without trouble");
    const expected = (await run(join(folder, "calm.db")))!;
    for (const message of expected.messages) say(`   ${message}`);
    await heading(2, "Once killed with SIGKILL at each superstep in turn");
    const path = join(folder, "killed.db");
    let kills = 0;
    let outcome = await run(path, "1");
    while (outcome === undefined && kills < MAX_KILLS) {
      kills++;
      outcome = await run(path, "1");
    }
    say(`   ${kills} processes were killed; each went on where the one before had stopped`);
    await heading(3, "What the log holds, newest first");
    await showHistory(path);
    const same = JSON.stringify(outcome) === JSON.stringify(expected);
    say();
    say(
      same ? paint("green", "The same end, word for word.") : paint("red", `Another end: ${JSON.stringify(outcome)}`),
    );
    return same && kills > 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

process.exitCode = await main();
