/** Every check that is not a test. All of them run; the first lines of each failure are what to read. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { ROOT, run, tool } from "./runtimes/tools.mjs";

const LINES = 120;

const entries = Object.values(JSON.parse(readFileSync(join(ROOT, "deno.json"), "utf8")).exports)
  .map((path) => path.replace("./", ""));
const documented = [
  "README.md",
  ...entries,
  ...["log", "projections", "backends", "adapters"].flatMap((folder) => sources(folder)),
].filter((path, index, all) => existsSync(join(ROOT, path)) && all.indexOf(path) === index);

function sources(folder) {
  if (!existsSync(join(ROOT, folder))) return [];
  return readdirSync(join(ROOT, folder), { recursive: true })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => join(folder, name))
    .sort();
}

const CHECKS = [
  ["format", "deno", ["fmt", "--check"]],
  ["lint", "deno", ["lint"]],
  ["types, as Deno sees them", "deno", ["check", "--quiet", "."]],
  // --no-script: "bun check" would else run this very script.
  ["types, as Bun and Node see them", "bun", ["check", "--no-script", "--all"]],
  // --no-npm: what an adapter's peer documents is the peer's affair.
  ["documentation", "deno", ["doc", "--lint", "--no-npm", ...entries]],
  ["examples", "deno", ["test", "--quiet", "--doc", "--allow-all", ...documented]],
  ["publishing", "deno", ["publish", "--dry-run", "--allow-dirty"]],
];

let failed = 0;
for (const [name, program, args] of CHECKS) {
  const { code, output, seconds } = await run(tool(program), args);
  const good = code === 0;
  if (!good) failed++;
  console.log(`${good ? "ok  " : "FAIL"} ${name} (${seconds.toFixed(1)} s)`);
  if (!good) {
    console.log(`  ${program} ${args.filter((arg) => !arg.includes("/")).join(" ")}: exit ${code}`);
    const lines = output.trim().split("\n");
    console.log(lines.slice(0, LINES).map((line) => `    ${line}`).join("\n"));
    if (lines.length > LINES) console.log(`    ... ${lines.length - LINES} more lines`);
  }
}
console.log(`${CHECKS.length - failed} checks passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
