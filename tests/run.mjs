/**
 * Runs the test files under Bun, Deno and Node and sums what their JUnit reports say.
 *
 *   npm test                        every file on every runtime
 *   npm test -- codec writer        only files whose path contains one of these
 *   npm run test:bun -- codec       on one runtime
 *   npm run test:postgres           what runs on every backend, on PostgreSQL only, and its own tests
 *
 * Without a name, the crash tests and what concerns PostgreSQL run on one runtime each, in turn.
 *
 * Each file runs in a process of its own on each runtime: a crash, a hang or an `exit` costs that file only, and a file
 * that runs no test fails.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, sep } from "node:path";
import process from "node:process";
import { casesOf } from "./runtimes/junit.mjs";
import { skipReason } from "./runtimes/skips.mjs";
import { ROOT, run, tool, versionOf } from "./runtimes/tools.mjs";
import { startPostgres } from "./support/postgres.mjs";

const JOBS = 2;
const TEST_LIMIT_MS = 60_000;
const FILE_LIMIT_MS = 20 * 60_000;
const FAILURE_LINES = 60;

const RUNTIMES = {
  bun: (file, report) => [
    "test",
    "--timeout",
    String(TEST_LIMIT_MS),
    "--reporter=junit",
    `--reporter-outfile=${report}`,
    `./${file}`,
  ],
  deno: (file, report) => ["test", "--allow-all", "--no-check", `--junit-path=${report}`, file],
  // Without --test: no process in between, and a file that runs no test leaves no report.
  node: (file, report) => [
    "--disable-warning=ExperimentalWarning",
    `--test-timeout=${TEST_LIMIT_MS}`,
    "--test-reporter=junit",
    `--test-reporter-destination=${report}`,
    file,
  ],
};

function parseArguments(args) {
  const names = [];
  const filters = [];
  let over = "";
  for (const arg of args) {
    if (arg.startsWith("--on=")) names.push(...arg.slice(5).split(","));
    else if (arg.startsWith("--over=")) over = arg.slice(7);
    else if (arg.startsWith("-")) {
      throw new Error(`Unknown option ${arg}. Give --on=bun,deno,node, --over=postgres and parts of paths.`);
    } else filters.push(arg);
  }
  for (const name of names) if (!Object.hasOwn(RUNTIMES, name)) throw new Error(`Unknown runtime ${name}`);
  return { names: names.length === 0 ? Object.keys(RUNTIMES) : names, filters, over };
}

/** Whether a file has a part for each backend. */
function isForEachBackend(file) {
  return file.startsWith("tests/postgres/") ||
    /support\/backends\.ts"|\bonEach\b/.test(readFileSync(join(ROOT, file), "utf8"));
}

/**
 * A run of everything takes turns, so that it ends in minutes: what costs most, and each file's part on PostgreSQL, runs on
 * one runtime each. Asked for by name, a file runs on all.
 */
function isOnce(file) {
  return file.startsWith("tests/crash/") || file.startsWith("tests/postgres/");
}

/** A server is slow: random tests are cut short, which npm run test:postgres does not. */
const HERE = { THREADLOG_PROPERTY_MS: "12000" };
/** What keeps a file from using the server. */
const ELSEWHERE = {
  THREADLOG_POSTGRES_URL: "",
  THREADLOG_POSTGRES_REASON: "it runs on another runtime; npm run test:postgres runs it on all",
};

/** One server for all files; without one, its tests say why they are skipped. */
async function startServer(files) {
  if (process.env.THREADLOG_POSTGRES_URL || !files.some(isForEachBackend)) return undefined;
  // A server must not outlive a run that is broken off.
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));
  const server = await startPostgres();
  process.env[server.url === undefined ? "THREADLOG_POSTGRES_REASON" : "THREADLOG_POSTGRES_URL"] = server.url ??
    server.reason;
  return server.url === undefined ? undefined : server;
}

function testFiles(filters) {
  return readdirSync(join(ROOT, "tests"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith("_test.ts"))
    .map((entry) => relative(ROOT, join(entry.parentPath ?? entry.path, entry.name)).split(sep).join("/"))
    .filter((file) => !file.includes("node_modules/"))
    .filter((file) => filters.length === 0 || filters.some((filter) => file.includes(filter)))
    .sort();
}

async function runJob({ runtime, path, file, report, env }) {
  const { code, output, timedOut, seconds } = await run(path, RUNTIMES[runtime](file, report), {
    env,
    limitMs: FILE_LIMIT_MS,
  });
  const cases = existsSync(report) ? casesOf(readFileSync(report, "utf8")) : [];
  const broken = timedOut
    ? `stopped after ${FILE_LIMIT_MS / 60_000} minutes`
    : cases.length === 0
    ? `ran no test (exit ${code})`
    : code !== 0 && !cases.some((one) => one.state === "failed")
    ? `exit ${code} although no test failed`
    : undefined;
  if (broken !== undefined) cases.push({ name: broken, state: "failed", text: output });
  return { runtime, file, cases, seconds, elsewhere: env === ELSEWHERE };
}

async function runAll(jobs) {
  const results = [];
  const queue = [...jobs];
  const worker = async () => {
    for (let job = queue.shift(); job !== undefined; job = queue.shift()) {
      const result = await runJob(job);
      results.push(result);
      printJob(result);
    }
  };
  await Promise.all(Array.from({ length: JOBS }, worker));
  return results;
}

function count(results, state) {
  return results.reduce((sum, { cases }) => sum + cases.filter((one) => one.state === state).length, 0);
}

function printJob({ runtime, file, cases, seconds }) {
  const failures = cases.filter((one) => one.state === "failed");
  console.log(
    `${failures.length === 0 ? "ok  " : "FAIL"} ${runtime.padEnd(4)} ${file} ` +
      `(${cases.length - failures.length}/${cases.length}, ${seconds.toFixed(1)} s)`,
  );
  for (const { name, text } of failures) {
    const lines = text.trim().split("\n");
    const shown = lines.length <= FAILURE_LINES ? lines : [
      ...lines.slice(0, FAILURE_LINES / 2),
      `... ${lines.length - FAILURE_LINES} lines ...`,
      ...lines.slice(-FAILURE_LINES / 2),
    ];
    console.log(`\n  ${runtime}: ${file} > ${name}`);
    console.log(shown.map((line) => `    ${line}`).join("\n") + "\n");
  }
}

function printSkips(results) {
  const skips = new Map();
  for (const { runtime, file, cases } of results) {
    for (const { name, state, reason } of cases) {
      if (state !== "skipped") continue;
      const key = `${file} > ${name}`;
      const skip = skips.get(key) ?? { file, name, on: [], reason: undefined };
      skip.on.push(runtime);
      skip.reason ??= reason;
      skips.set(key, skip);
    }
  }
  for (const [key, { file, name, on, reason }] of skips) {
    console.log(`skipped on ${on.sort().join(", ")}: ${key}: ${reason ?? skipReason(file, name)}`);
  }
}

/** A runtime that drops tests without a word must be seen: Deno, for one, ignores an error between two tests. */
function printDifferences(results) {
  const byFile = new Map();
  for (const result of results) byFile.set(result.file, [...byFile.get(result.file) ?? [], result]);
  for (const [file, each] of byFile) {
    if (each.length < 2 || each.some(({ elsewhere }) => elsewhere)) continue;
    const counts = each.map(({ runtime, cases }) => `${runtime} ${cases.length}`).sort();
    if (new Set(each.map(({ cases }) => cases.length)).size > 1) console.log(`note: ${file} ran ${counts.join(", ")}`);
  }
}

async function main() {
  const { names, filters, over } = parseArguments(process.argv.slice(2));
  let files = testFiles(filters);
  if (over !== "") {
    files = files.filter(isForEachBackend);
    process.env.THREADLOG_OVER = over;
  }
  if (files.length === 0) {
    console.log(`No file of tests/ has ${filters.join(" or ") || "a name that ends in _test.ts"}`);
  }
  const folder = mkdtempSync(join(tmpdir(), "threadlog-tests-"));
  const failed = [];
  const results = [];
  const server = await startServer(files);
  try {
    const jobs = [];
    const paths = new Map(names.map((runtime) => [runtime, tool(runtime)]));
    const takesTurns = over === "" && filters.length === 0 && names.length > 1;
    let turn = 0;
    for (const file of files) {
      const once = takesTurns && isOnce(file);
      const server = takesTurns && isForEachBackend(file);
      const chosen = names[once || server ? turn++ % names.length : 0];
      for (const [runtime, path] of paths) {
        if (once && runtime !== chosen) continue;
        const env = !server ? {} : runtime === chosen ? HERE : ELSEWHERE;
        jobs.push({ runtime, path, file, env, report: join(folder, `${jobs.length}.xml`) });
      }
    }
    results.push(...await runAll(jobs));
    console.log("");
    printSkips(results);
    printDifferences(results);
    for (const [runtime, path] of paths) {
      const own = results.filter((result) => result.runtime === runtime);
      const passed = count(own, "passed");
      console.log(
        `${runtime} ${versionOf(path)}: ${passed} passed, ${count(own, "failed")} failed, ` +
          `${count(own, "skipped")} skipped in ${own.length} files`,
      );
      if (passed === 0 && count(own, "skipped") === 0) failed.push(`${runtime} ran no test`);
    }
  } finally {
    await server?.end();
    rmSync(folder, { recursive: true, force: true });
  }
  for (const line of failed) console.log(`FAIL ${line}`);
  const failures = count(results, "failed") + (count(results, "failed") === 0 ? failed.length : 0);
  console.log(`${count(results, "passed")} passed, ${failures} failed`);
  process.exitCode = failures === 0 ? 0 : 1;
}

await main();
