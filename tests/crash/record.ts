/**
 * Runs the writer under the recorder. Deno does all its file work through libc, where the shim sees it; Bun does not.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { ARGUMENTS, pathOf, type Runtime } from "../support/processes.ts";
import { type Action, decodeRecords, type Task } from "./records.ts";

const SHIM = fileURLToPath(new URL("shim.c", import.meta.url));
const WRITER = fileURLToPath(new URL("writer.ts", import.meta.url));
const LIMIT_MS = 60_000;

/** Why nothing can be recorded here; false if it can. */
export const noRecorder: string | false = process.platform !== "linux"
  ? "the recorder is for Linux"
  : spawnSync("gcc", ["--version"]).status !== 0
  ? "gcc is not installed"
  : pathOf("deno") === undefined
  ? "Deno, which is recorded, is not installed"
  : false;

/** A folder for many short-lived files: in memory, where there is room. */
export function scratchFolder(): string {
  return mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "threadlog-crash-"));
}

/** The compiled shim; compiled once for all runs. */
function shim(): string {
  const name = `threadlog-shim-${createHash("sha256").update(readFileSync(SHIM)).digest("hex").slice(0, 16)}.so`;
  const path = join(tmpdir(), name);
  if (existsSync(path)) return path;
  const built = `${path}.${process.pid}`;
  const { status, stderr } = spawnSync("gcc", ["-O2", "-shared", "-fPIC", "-o", built, SHIM, "-ldl", "-lpthread"]);
  if (status !== 0) throw new Error(`gcc failed: ${stderr}`);
  renameSync(built, path);
  return path;
}

/** What the recorder does beside recording. See shim.c. */
export interface ShimOptions {
  readonly drop?: "fsync" | "fdatasync" | "all";
  readonly slowUs?: number;
  readonly fault?: string;
  /** Whether records of the disk are kept; the writer's notes always are. */
  readonly recording?: boolean;
  /** Goes on with the record of the run before. */
  readonly resume?: boolean;
}

/** A run of the writer. */
export interface Run {
  readonly actions: readonly Action[];
  /** The exit code; null after a signal. */
  readonly code: number | null;
  readonly errors: string;
}

/** Runs the writer to its end, or to its death. */
export async function run(task: Omit<Task, "record">, options: ShimOptions = {}): Promise<Run> {
  const record = `${task.path}.record`;
  if (options.resume !== true) rmSync(record, { force: true });
  const { recording = true, drop = "", slowUs = 0, fault } = options;
  const env: Record<string, string | undefined> = {
    ...process.env,
    LD_PRELOAD: shim(),
    CRASH_DB: task.path,
    CRASH_DROP: drop,
    CRASH_SLOW_US: `${slowUs}`,
    ...recording && { CRASH_RECORD: record },
    ...fault !== undefined && { CRASH_FAULT: fault },
  };
  const args = [...ARGUMENTS.deno, "--quiet", WRITER, JSON.stringify({ ...task, record })];
  return {
    ...await ended(spawn(pathOf("deno")!, args, { env, stdio: ["ignore", "ignore", "pipe"] })),
    ...read(record),
  };
}

/**
 * Runs the writer without the recorder, on any runtime. First a shell runs `script`, which may change what surrounds it;
 * there, "$@" is the writer.
 */
export async function runInShell(runtime: Runtime, script: string, task: Task): Promise<Run> {
  const args = ["-c", script, "sh", pathOf(runtime)!, ...ARGUMENTS[runtime], WRITER, JSON.stringify(task)];
  return { ...await ended(spawn("sh", args, { stdio: ["ignore", "ignore", "pipe"] })), ...read(task.record) };
}

function read(record: string): Pick<Run, "actions"> {
  return { actions: existsSync(record) ? decodeRecords(readFileSync(record)) : [] };
}

async function ended(child: ChildProcess): Promise<Omit<Run, "actions">> {
  const timer = setTimeout(() => child.kill("SIGKILL"), LIMIT_MS);
  let errors = "";
  child.stderr!.setEncoding("utf8").on("data", (text: string) => errors += text);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  clearTimeout(timer);
  return { code, errors };
}
