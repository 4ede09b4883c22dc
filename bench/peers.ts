/**
 * Installs the peers that are not among the development packages, in a folder for temporary files. Once; by hand:
 * delete the folder to have newer ones.
 *
 * @module
 */

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import process from "node:process";
import { run, tool } from "./tools.ts";

const SQLITE_SAVER = [
  "@langchain/langgraph-checkpoint-sqlite@1.0.4",
  "better-sqlite3@12",
  "@langchain/langgraph-checkpoint@1.2.2",
  "@langchain/core@1.4.0",
];
/** Loads on every runtime. */
const FOSSIL_DELTA = "fossil-delta@2.0.0";

/**
 * The folder with SqliteSaver and a better-sqlite3 that Node can load, and, if it can be had, with fossil-delta;
 * undefined where SqliteSaver can't be had.
 */
export async function installPeers(): Promise<string | undefined> {
  const node: string = tool("node");
  const folder = process.env.THREADLOG_BENCH_PEERS ?? join(tmpdir(), "threadlog-bench-peers");
  mkdirSync(folder, { recursive: true });
  const missing = [
    ...await loads(node, folder) ? [] : SQLITE_SAVER,
    ...existsSync(join(folder, "node_modules/fossil-delta")) ? [] : [FOSSIL_DELTA],
  ];
  if (missing.length === 0) return folder;
  if (!existsSync(join(folder, "package.json"))) writeFileSync(join(folder, "package.json"), '{"private":true}');
  // Where no built module can be downloaded it is compiled, against the headers that come with this Node.
  const env = {
    PATH: `${dirname(node)}${delimiter}${process.env.PATH}`,
    npm_config_nodedir: dirname(dirname(node)),
  };
  const flags = ["install", "--no-audit", "--no-fund", "--legacy-peer-deps"];
  await run("npm", [...flags, ...missing], { cwd: folder, env, limitMs: 5 * 60_000 });
  return await loads(node, folder) ? folder : undefined;
}

async function loads(node: string, folder: string): Promise<boolean> {
  const probe = 'new (require("better-sqlite3"))(":memory:"); require("@langchain/langgraph-checkpoint-sqlite")';
  return (await run(node, ["-e", probe], { cwd: folder })).code === 0;
}
