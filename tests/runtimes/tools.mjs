/**
 * Where the runtimes under test are, and how to run one of them. Plain JavaScript, so that the Node which came with
 * the machine (20 or newer) runs it.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

const require = createRequire(import.meta.url);
const MINIMUM_NODE = 22;
const WINDOWS = process.platform === "win32";
const OUTPUT_LIMIT = 4_000_000;

/** The path of `bun`, `deno` or `node` as `npm ci` installed it; for node, the machine's own where npm has none. */
export function tool(name) {
  const found = name === "node" ? packagedNode() ?? machineNode() : packagedTool(name);
  if (found === undefined) throw new Error(`${name} is not installed: run npm ci`);
  return found;
}

function packagedTool(name) {
  const path = join(ROOT, "node_modules", ".bin", WINDOWS ? `${name}.cmd` : name);
  return existsSync(path) ? path : undefined;
}

function packagedNode() {
  const system = WINDOWS ? "win" : process.platform;
  for (const prefix of ["node", "node-bin"]) {
    try {
      const manifest = require.resolve(`${prefix}-${system}-${process.arch}/package.json`);
      return join(dirname(manifest), require(manifest).bin.node);
    } catch {
      // The other name, or the machine's own Node.
    }
  }
  return undefined;
}

function machineNode() {
  return Number(process.versions.node.split(".")[0]) >= MINIMUM_NODE ? process.execPath : undefined;
}

/** The version a runtime reports of itself, as in "2.9.6". */
export function versionOf(path) {
  const { stdout } = spawnSync(path, ["--version"], { encoding: "utf8", shell: WINDOWS });
  return /\d+\.\d+\.\d+\S*/.exec(stdout ?? "")?.[0] ?? "unknown";
}

/**
 * Runs a program to its end, or kills it and its children after `limitMs`. Resolves to its exit code and what it
 * printed, the end of it if that is long.
 */
export function run(path, args, { cwd = ROOT, env = {}, limitMs = 10 * 60_000 } = {}) {
  return new Promise((resolve) => {
    const started = performance.now();
    const child = spawn(path, args, {
      cwd,
      env: { ...process.env, NO_COLOR: "1", FORCE_COLOR: undefined, ...env },
      stdio: ["ignore", "pipe", "pipe"],
      detached: !WINDOWS,
      shell: WINDOWS,
    });
    let output = "";
    let timedOut = false;
    const keep = (chunk) => {
      output = (output + chunk).slice(-OUTPUT_LIMIT);
    };
    child.stdout.setEncoding("utf8").on("data", keep);
    child.stderr.setEncoding("utf8").on("data", keep);
    const timer = setTimeout(() => {
      timedOut = true;
      stop(child);
    }, limitMs);
    const end = (code) => {
      clearTimeout(timer);
      resolve({ code, output, timedOut, seconds: (performance.now() - started) / 1000 });
    };
    child.on("error", (error) => {
      output += String(error);
      end(-1);
    });
    child.on("close", (code, signal) => end(signal === null ? code : signal));
  });
}

function stop(child) {
  try {
    if (WINDOWS) child.kill("SIGKILL");
    else process.kill(-child.pid, "SIGKILL");
  } catch {
    // It has just ended.
  }
}
