/**
 * All of LangGraph's own checkpointer suite, on the runtime that runs this file, over each backend. The suite is
 * written for vitest, which runs in a process of its own and keeps its caches out of the tree.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { isChosen, noPostgres } from "../support/backends.ts";

/** As published: 718 of the specs, 8 of the delta channels. */
const SPECS = 726;
const LIMIT_MS = 5 * 60_000;

const root = fileURLToPath(new URL("../../", import.meta.url));
const versions: Partial<Record<string, string>> = process.versions;
const RUN = versions["bun"] !== undefined
  ? ["--bun"]
  : versions["deno"] !== undefined
  ? ["run", "--allow-all", "--no-check", "--node-modules-dir=manual"]
  : ["--disable-warning=ExperimentalWarning"];

interface Report {
  readonly numTotalTests: number;
  readonly numPassedTests: number;
  readonly testResults: readonly {
    readonly message: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

async function runSuite(backend: string): Promise<Report> {
  const folder = mkdtempSync(join(tmpdir(), "threadlog-conformance-"));
  const file = join(folder, "report.json");
  const config = "tests/langgraph/conformance/vitest_config.mjs";
  const args = [...RUN, "node_modules/vitest/vitest.mjs", "run", "--config", config, `--outputFile=${file}`];
  try {
    const output = await new Promise<string>((resolve, reject) => {
      const env = { ...process.env, THREADLOG_BACKEND: backend };
      const child = spawn(process.execPath, args, { cwd: root, env, timeout: LIMIT_MS });
      let text = "";
      child.stdout.on("data", (chunk) => text += chunk);
      child.stderr.on("data", (chunk) => text += chunk);
      child.on("error", reject);
      child.on("close", () => resolve(text));
    });
    try {
      return JSON.parse(readFileSync(file, "utf8")) as Report;
    } catch {
      throw new Error(`vitest left no report: ${output.slice(-2000)}`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

describe("LangGraph's checkpointer suite", () => {
  for (const backend of ["memory", "sqlite", "postgres"].filter(isChosen)) {
    const skip = backend === "postgres" && noPostgres;
    it(`passes over ${backend}, all ${SPECS} specs of it`, { timeout: LIMIT_MS, skip }, async () => {
      const report = await runSuite(backend);
      const failures = report.testResults.flatMap(({ message, assertionResults }) => [
        ...message === "" ? [] : [message],
        ...assertionResults
          .filter(({ status }) => status !== "passed")
          .map(({ fullName, status, failureMessages }) => `${status}: ${fullName}: ${failureMessages[0]}`),
      ]);
      assert.deepEqual(failures.slice(0, 10), []);
      assert.equal(report.numPassedTests, SPECS);
      assert.equal(report.numTotalTests, SPECS);
    });
  }
});
