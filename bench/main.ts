/**
 * Measures Threadlog against its peers and the floor: `npm run bench [-- TABLE ... --quick --full --rounds=N]`.
 *
 * Each runtime runs each table in a process of its own, round after round, in another order each time. All tables
 * together write results/latest.json and results/README.md; a single one replaces its part of them.
 *
 * @module
 */

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { ROOT, run, tool, versionOf } from "./tools.ts";
import { load, machine } from "./machine.ts";
import type { Row } from "./measure.ts";
import { installPeers } from "./peers.ts";
import { page, plots } from "./report.ts";
import { type Outcome, type Results, summarize } from "./results.ts";
import { TABLES } from "./tables/mod.ts";

const RUNTIMES = { Bun: ["bun"], Deno: ["deno", "run", "-A", "--no-check"], Node: ["node"] };
const FOLDER = fileURLToPath(new URL("results/", import.meta.url));
const LIMIT_MS = 5 * 60_000;

const args = process.argv.slice(2);
const flags = args.filter((arg) => arg.startsWith("--"));
const names = args.filter((arg) => !arg.startsWith("--"));
const quick = flags.includes("--quick");
const unknown = [
  ...names.filter((name) => TABLES[name] === undefined),
  ...flags.filter((flag) => !/^--(quick|full|page|rounds=[1-9]\d*)$/.test(flag)),
];
if (unknown.length > 0) {
  console.error(`Unknown: ${unknown.join(" ")}. Tables: ${Object.keys(TABLES).join(" ")}.`);
  console.error("Flags: --quick, --full (growth up to a million events), --rounds=N, --page (writes the page anew).");
  process.exit(2);
}
const asked = flags.find((flag) => flag.startsWith("--rounds="))?.split("=")[1];
const rounds = asked === undefined ? (quick ? 3 : 5) : Number(asked);

const peers = await installPeers();
const peer = peers === undefined ? "not installed" : peerVersion(peers);
const results: Results = {
  machine: machine(),
  versions: {
    Bun: versionOf(tool("bun")),
    Deno: versionOf(tool("deno")),
    Node: versionOf(tool("node")),
    Threadlog: JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).version,
  },
  peer,
  tables: {},
};
console.log(`${JSON.stringify(results.machine)}\n${JSON.stringify(results.versions)}\nSqliteSaver: ${peer}`);

// With --page, what was measured before is only written anew.
const one = names.length > 0 || flags.includes("--page");
const tables: Record<string, Outcome> = one ? earlier() : {};
if (one) write({ ...results, tables });
for (const name of one ? names : Object.keys(TABLES)) {
  tables[name] = await measure(name);
  write({ ...results, tables });
}

async function measure(name: string): Promise<Outcome> {
  const loadBefore = load();
  const started = performance.now();
  const all: Record<string, readonly Row[]>[] = [];
  for (let round = 0; round < rounds; round++) {
    const rows: Record<string, readonly Row[]> = {};
    const order = Object.entries(RUNTIMES);
    for (const [runtime, [program, ...before]] of [...order.slice(round % 3), ...order.slice(0, round % 3)]) {
      const worker = fileURLToPath(new URL("worker.ts", import.meta.url));
      const options = { env: { THREADLOG_BENCH_PEERS: peers ?? "" }, limitMs: LIMIT_MS };
      const command = [...before, worker, name, String(round), ...flags];
      const { code, output } = await run(tool(program!), command, options);
      const found = /^@rows (.*)$/m.exec(output)?.[1];
      if (code === 0 && found !== undefined) rows[runtime] = JSON.parse(found);
      else {
        console.error(`${name} failed on ${runtime}: exit ${code}\n${output.slice(-2000)}`);
        process.exitCode = 1;
      }
    }
    all.push(rows);
  }
  const ran = { date: new Date().toISOString().slice(0, 10), rounds, quick, loadBefore, loadAfter: load() };
  const outcome = { ran, lines: summarize(all, TABLES[name]!.bases) };
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  console.log(`\n${name}, ${seconds} s, load ${loadBefore} -> ${ran.loadAfter}`);
  console.log(
    page({ ...results, tables: { [name]: outcome } }).split("\n").filter((line) => line[0] === "|").join("\n"),
  );
  return outcome;
}

function write(all: Results): void {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, "latest.json"), JSON.stringify(all, null, 1) + "\n");
  writeFileSync(join(FOLDER, "README.md"), page(all));
  for (const [name, svg] of Object.entries(plots(all))) writeFileSync(join(FOLDER, name), svg);
}

/** What the tables that are not measured now gave, on this same machine and with these same versions. */
function earlier(): Record<string, Outcome> {
  const file = join(FOLDER, "latest.json");
  if (!existsSync(file)) return {};
  const found = JSON.parse(readFileSync(file, "utf8")) as Results;
  const about = ({ machine, versions, peer }: Results) => JSON.stringify([machine, versions, peer]);
  return about(found) === about(results) ? { ...found.tables } : {};
}

function peerVersion(folder: string): string {
  const version = (name: string) =>
    JSON.parse(readFileSync(join(folder, "node_modules", name, "package.json"), "utf8")).version;
  return `${version("@langchain/langgraph-checkpoint-sqlite")} with better-sqlite3 ${version("better-sqlite3")}`;
}
