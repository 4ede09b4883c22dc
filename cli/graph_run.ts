/**
 * Runs the support agent on a log, from wherever it is, and prints how it ended:
 *
 *   graph_run.ts agent.db        to the end
 *   graph_run.ts agent.db 1      until the first checkpoint is put: then the process kills itself
 *
 * @module
 */

import process from "node:process";
import { ThreadlogSaver } from "../adapters/langgraph/mod.ts";
import { runToEnd } from "./graph_agent.ts";

const [path, limit] = process.argv.slice(2);
const saver = await ThreadlogSaver.open(path!);
if (limit !== undefined) killAfter(saver, Number(limit));
const outcome = await runToEnd(saver);
await saver.close();
process.stdout.write(`${JSON.stringify(outcome)}\n`);

/** Kills this process as hard as can be, once so many checkpoints have been put. */
function killAfter(saver: ThreadlogSaver, puts: number): void {
  const put = saver.put.bind(saver);
  let count = 0;
  saver.put = async (...args) => {
    const config = await put(...args);
    if (++count >= puts) process.kill(process.pid, "SIGKILL");
    return config;
  };
}
