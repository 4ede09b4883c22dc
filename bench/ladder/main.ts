/**
 * The load ladder: the highest rate of requests that each store holds, `npm run bench:ladder [-- --quick] [-- NAME ...]`.
 *
 * A step is held if 95 of 100 requests are answered within 50 ms of when they were due, and fewer than 1 in 100 fail. The
 * rate goes up by steps until one is not held, twice. Stores take turns, in another order each round, and each round
 * begins with new data. Writes results/ladder.md and results/ladder.svg.
 *
 * @module
 */

import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { openLog } from "../../mod.ts";
import { withFolder } from "../files.ts";
import { load, machine } from "../machine.ts";
import { median } from "../measure.ts";
import { type Curve, plot } from "../plot.ts";
import { tool, versionOf } from "../tools.ts";
import { CONTENDERS, fill, type Operation } from "./contenders.ts";

const STEPS = [125, 250, 500, 1000, 1500, 2000, 3000, 4000, 6000, 8000, 11_000, 14_000, 18_000, 24_000, 32_000];
const LIMIT_P95_MS = 50;
const LIMIT_FAILED = 0.01;
const FOLDER = fileURLToPath(new URL("../results/", import.meta.url));
const RUNTIMES: Readonly<Record<string, readonly string[]>> = {
  Bun: ["bun"],
  Deno: ["deno", "run", "-A", "--no-check"],
  Node: ["node"],
};

const quick = process.argv.includes("--quick");
const wanted = process.argv.slice(2).filter((arg) => !arg.startsWith("--"));
const ROUNDS = quick ? 1 : 3;
const SECONDS = quick ? 4 : 30;
const EVENTS = quick ? 20_000 : 1_000_000;

/** One way of running the ladder. */
interface Climb {
  readonly contender: string;
  readonly operation: Operation;
  readonly runtime: string;
  readonly instances: number;
}

interface Step {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly failed: number;
}

const CLIMBS: readonly Climb[] = [
  ...Object.keys(CONTENDERS).map((contender): Climb => ({
    contender,
    operation: "append",
    runtime: "Bun",
    instances: 1,
  })),
  ...["Deno", "Node"].map((runtime): Climb => ({
    contender: "Threadlog, SQLite",
    operation: "append",
    runtime,
    instances: 1,
  })),
  ...["Threadlog, SQLite", "Threadlog, PostgreSQL"].flatMap((contender) => [
    ...(["mix", "latest", "replay"] as const).map((operation): Climb => ({
      contender,
      operation,
      runtime: "Bun",
      instances: 1,
    })),
    { contender, operation: "append", runtime: "Bun", instances: 2 } satisfies Climb,
  ]),
].filter((climb) => wanted.length === 0 || wanted.some((part) => nameOf(climb).includes(part)));

function nameOf({ contender, operation, runtime, instances }: Climb): string {
  return `${operation}: ${contender}, ${runtime}${instances > 1 ? `, ${instances} instances` : ""}`;
}

interface Server {
  readonly url: string;
  end(): Promise<void>;
}

async function server(): Promise<Server | undefined> {
  const { startPostgres } = await import(new URL("../../tests/support/postgres.mjs", import.meta.url).href) as {
    startPostgres(): Promise<Server | { readonly url?: undefined; readonly reason: string }>;
  };
  const found = await startPostgres();
  if (found.url !== undefined) return found;
  console.log(found.reason);
  return undefined;
}

/** Starts a script on a runtime; resolves when it has printed what matches. */
function start(runtime: string, script: string, args: readonly string[]): {
  readonly child: ChildProcess;
  readonly saw: (pattern: RegExp) => Promise<string>;
} {
  const [program, ...before] = RUNTIMES[runtime]!;
  const file = fileURLToPath(new URL(script, import.meta.url));
  const child = spawn(tool(program!), [...before, file, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  const waiting: { pattern: RegExp; resolve: (found: string) => void; reject: (error: Error) => void }[] = [];
  const look = () => {
    for (const one of waiting.splice(0)) {
      const found = one.pattern.exec(output)?.[1];
      if (found === undefined) waiting.push(one);
      else one.resolve(found);
    }
  };
  child.stdout!.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    look();
  });
  child.on("exit", () => {
    look();
    for (const { reject } of waiting) reject(new Error(`${script} ended: ${output.slice(-500)}`));
  });
  const saw = (pattern: RegExp) =>
    new Promise<string>((resolve, reject) => {
      waiting.push({ pattern, resolve, reject });
      look();
    });
  return { child, saw };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  setTimeout(() => child.kill("SIGKILL"), 5000).unref();
  await ended;
}

/** New data: a path or a URL, and the end of it. */
async function withTarget<T>(climb: Climb, use: (target: string) => Promise<T>): Promise<T | undefined> {
  const isNaive = climb.contender.startsWith("naive");
  const run = async (target: string) => {
    if (!isNaive) {
      await using log = await openLog(target, { durability: "normal" });
      await fill(log, EVENTS);
    }
    return await use(target);
  };
  if (CONTENDERS[climb.contender]!.on === "sqlite") return await withFolder((path) => run(path("log.db")));
  const own = await server();
  if (own === undefined) return undefined;
  try {
    return await run(own.url);
  } finally {
    await own.end();
  }
}

/** Goes up until two steps in a row are not held. */
async function climb(one: Climb): Promise<{ held: number; steps: [rate: number, step: Step][] } | undefined> {
  return await withTarget(one, async (target) => {
    const apps = Array.from(
      { length: one.instances },
      () => start(one.runtime, "app.ts", [one.contender, target, one.operation]),
    );
    try {
      const ports = await Promise.all(apps.map(({ saw }) => saw(/port (\d+)/)));
      const steps: [number, Step][] = [];
      let held = 0;
      let misses = 0;
      for (const rate of STEPS) {
        const generator = start("Node", "generator.ts", [String(rate), String(SECONDS), ...ports]);
        const step = JSON.parse(await generator.saw(/@step (.*)/)) as Step;
        steps.push([rate, step]);
        const isHeld = step.p95 < LIMIT_P95_MS && step.failed < LIMIT_FAILED;
        console.log(`${nameOf(one)}, ${rate}/s: ${show(step)}${isHeld ? "" : ", not held"}`);
        if (isHeld) [held, misses] = [rate, 0];
        else if (++misses === 2) break;
      }
      return { held, steps };
    } finally {
      await Promise.all(apps.map(({ child }) => stop(child)));
    }
  });
}

function show({ p50, p95, p99, failed }: Step): string {
  const ms = (value: number) => Number.isFinite(value) ? `${value.toPrecision(3)} ms` : "never";
  return `p50 ${ms(p50)}, p95 ${ms(p95)}, p99 ${ms(p99)}, failed ${(failed * 100).toFixed(1)}%`;
}

interface Lag {
  readonly count: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly max: number;
}

/** How late another process sees what is appended 500 times a second. */
async function lag(contender: string): Promise<Lag | undefined> {
  const one: Climb = { contender, operation: "append", runtime: "Bun", instances: 1 };
  return await withTarget(one, async (target) => {
    const app = start("Bun", "app.ts", [contender, target, "append"]);
    try {
      const port = await app.saw(/port (\d+)/);
      const watcher = start("Bun", "watcher.ts", [target, String(SECONDS + 3)]);
      await watcher.saw(/(ready)/);
      await start("Node", "generator.ts", ["500", String(SECONDS), port]).saw(/@step (.*)/);
      return JSON.parse(await watcher.saw(/@lag (.*)/)) as Lag;
    } finally {
      await stop(app.child);
    }
  });
}

const results = new Map<string, { held: number[]; steps: [number, Step][] }>();
for (let round = 0; round < ROUNDS; round++) {
  for (const one of round % 2 === 0 ? CLIMBS : [...CLIMBS].reverse()) {
    const found = await climb(one);
    if (found === undefined) continue;
    const so = results.get(nameOf(one)) ?? { held: [], steps: [] };
    results.set(nameOf(one), { held: [...so.held, found.held], steps: found.steps });
  }
}
const lags: [string, Lag][] = [];
if (wanted.length === 0 || wanted.includes("lag")) {
  for (const contender of ["Threadlog, SQLite", "Threadlog, PostgreSQL"]) {
    const found = await lag(contender);
    if (found !== undefined) lags.push([contender, found]);
  }
}

mkdirSync(FOLDER, { recursive: true });
const about = machine();
const at500 = (steps: readonly [number, Step][]) => steps.find(([rate]) => rate === 500)?.[1];
const lines = [
  "# The load ladder",
  "",
  `Written by \`npm run bench:ladder${quick ? " -- --quick" : ""}\` on ${new Date().toISOString().slice(0, 10)}: ` +
  `${ROUNDS} rounds, steps of ${SECONDS} s, ${
    EVENTS.toLocaleString("en")
  } events in 10,000 threads to begin with, 1 KB ` +
  "each. Requests come at fixed times from a process of their own, and count from when they were due. A step is held if " +
  "p95 < 50 ms and fewer than 1% fail; of the steps tried " +
  `(${
    STEPS.map((step) => step.toLocaleString("en")).join(", ")
  } a second) the highest that was held counts, the median ` +
  "of the rounds. All are as durable as can be: SQLite with FULL (Threadlog: its own sync), PostgreSQL with " +
  "synchronous_commit = on. Naive: a transaction for each append, into one bare table.",
  "",
  `- Machine: ${about.cpu}, ${about.cores} cores for app, database and generator, ${about.memoryGiB} GiB, ` +
  `${about.kernel}, ${about.fileSystem}; load average ${load()} at the end`,
  `- Versions: Bun ${versionOf(tool("bun"))}, Deno ${versionOf(tool("deno"))}, Node ${versionOf(tool("node"))}`,
  "",
  "![latency against the rate](ladder.svg)",
  "",
  "| what | held, a second | p50 / p95 / p99 at 500/s |",
  "| --- | ---: | --- |",
  ...[...results].map(([name, { held, steps }]) => {
    const step = at500(steps);
    const shown = step === undefined
      ? ""
      : [step.p50, step.p95, step.p99].map((ms) => ms.toPrecision(3)).join(" / ") + " ms";
    return `| ${name} | ${median(held).toLocaleString("en")} | ${shown} |`;
  }),
  "",
  ...lags.length === 0 ? [] : [
    "## A subscriber in another process",
    "",
    "500 appends a second; from the time that an event bears to when it is seen.",
    "",
    "| store | events | p50 | p95 | p99 | max |",
    "| --- | ---: | ---: | ---: | ---: | ---: |",
    ...lags.map(([name, { count, ...at }]) =>
      `| ${name} | ${count} | ${[at.p50, at.p95, at.p99, at.max].map((ms) => `${ms} ms`).join(" | ")} |`
    ),
    "",
  ],
];
const curves = [...results].filter(([name]) => name.startsWith("append")).map(([name, { steps }]): Curve => ({
  name: name.replace("append: ", ""),
  points: steps.filter(([, { p95 }]) => Number.isFinite(p95) && p95 > 0).map(([rate, { p95 }]) => [rate, p95]),
}));
writeFileSync(join(FOLDER, "ladder.md"), lines.join("\n"));
if (curves.some(({ points }) => points.length > 1)) {
  writeFileSync(join(FOLDER, "ladder.svg"), plot("Appends", "a second", "ms, p95", curves));
}
console.log(lines.join("\n"));
