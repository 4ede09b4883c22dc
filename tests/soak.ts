/**
 * The random tests with ever new seeds, for as long as told:
 *
 *   npm run soak -- --minutes 10 [--seed N]
 *
 * Each round runs the crash suite (power cuts, faults, rot, salvage, contention, hostile files), kills and the model with
 * one seed. The first failure ends it, with what was printed and the command that repeats that round.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const RUN = fileURLToPath(new URL("run.mjs", import.meta.url));
const FILES = ["crash/", "durability", "model_test"];
const RUNTIMES = ["bun", "deno", "node"];
const STATES = "3";

const { values } = parseArgs({ options: { minutes: { type: "string" }, seed: { type: "string" } } });
const minutes = Number(values.minutes ?? 10);
const first = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
if (!(minutes > 0) || !Number.isSafeInteger(first)) throw new Error("Give --minutes N and --seed N as numbers.");

/** What was looked at so far, by part. */
const totals = new Map<string, { states: number; bad: number }>();

function round(seed: number, runtime: string): boolean {
  const folder = mkdtempSync(join(tmpdir(), "threadlog-soak-"));
  const table = join(folder, "table.jsonl");
  writeFileSync(table, "");
  try {
    const { status, stdout, stderr } = spawnSync("node", [RUN, `--on=${runtime}`, ...FILES], {
      encoding: "utf8",
      env: { ...process.env, THREADLOG_SEED: `${seed}`, THREADLOG_RUNS: STATES, THREADLOG_CRASH_TABLE: table },
    });
    for (const line of readFileSync(table, "utf8").split("\n").filter((line) => line !== "")) {
      const { part, states, bad } = JSON.parse(line) as { part: string; states: number; bad: number };
      const total = totals.get(part) ?? { states: 0, bad: 0 };
      totals.set(part, { states: total.states + states, bad: total.bad + bad });
    }
    if (status !== 0) console.log(stdout + stderr);
    return status === 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const end = performance.now() + minutes * 60_000;
console.log(`soak of ${minutes} minutes from seed ${first}`);
let rounds = 0;
for (let seed = first; performance.now() < end; seed++) {
  const runtime = RUNTIMES[rounds % RUNTIMES.length]!;
  const good = round(seed, runtime);
  rounds++;
  const counts = [...totals].map(([part, { states, bad }]) => `${part} ${states} (${bad} bad)`).join(", ");
  console.log(
    `${new Date().toISOString()} round ${rounds}, ${runtime}, seed ${seed}: ${good ? "ok" : "FAILED"}; ${counts}`,
  );
  if (good) continue;
  console.log(
    `repeat with: THREADLOG_SEED=${seed} THREADLOG_RUNS=${STATES} node tests/run.mjs --on=${runtime} ${
      FILES.join(" ")
    }`,
  );
  process.exit(1);
}
console.log(`${rounds} rounds, none failed`);
