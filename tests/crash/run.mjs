/** `npm run test:crash`: the crash tests alone, and a table of what they looked at. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { ROOT } from "../runtimes/tools.mjs";

const folder = mkdtempSync(join(tmpdir(), "threadlog-table-"));
const path = join(folder, "table.jsonl");
const { status } = spawnSync(process.execPath, [join(ROOT, "tests/run.mjs"), "crash/", ...process.argv.slice(2)], {
  stdio: "inherit",
  env: { ...process.env, THREADLOG_CRASH_TABLE: path },
});
const lines = existsSync(path) ? readFileSync(path, "utf8").trim().split("\n").map((line) => JSON.parse(line)) : [];
rmSync(folder, { recursive: true });

const rows = new Map();
for (const { part, name, states, bad } of lines) {
  const row = rows.get(`${part}: ${name}`) ?? { states: 0, bad: 0 };
  rows.set(`${part}: ${name}`, { states: row.states + states, bad: row.bad + bad });
}
console.log(`\n${"".padEnd(64)}${"states".padStart(8)}${"bad".padStart(8)}`);
for (const [name, { states, bad }] of rows) {
  console.log(`${name.padEnd(64)}${String(states).padStart(8)}${String(bad).padStart(8)}`);
}
const sound = lines.filter(({ part }) => part !== "mutant");
const mutants = [...rows].filter(([name]) => name.startsWith("mutant"));
const sum = (key) => sound.reduce((total, line) => total + line[key], 0);
const caught = mutants.filter(([, { bad }]) => bad > 0).length;
console.log(`\n${sum("states")} states, ${sum("bad")} lost, ${caught} of ${mutants.length} mutants caught`);
process.exitCode = status ?? 1;
