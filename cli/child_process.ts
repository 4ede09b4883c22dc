/**
 * Starting another program of this folder on the runtime that runs this one, and killing it hard.
 *
 * @module
 */

import { type ChildProcess, spawn } from "node:child_process";
import { dirname } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const FOLDER = dirname(fileURLToPath(import.meta.url));

/** What the program said, and how it ended. */
export interface Killed {
  /** Its process id. */
  readonly pid: number;
  /** The lines that it printed until it was gone. */
  readonly lines: readonly string[];
}

/**
 * Runs a program that answers each line it is given with a line, and kills it with SIGKILL after so many answers, while
 * it works on the next. What it prints on standard error is passed on.
 */
export async function runUntilKilled(
  program: string,
  args: readonly string[],
  answers: number,
  onLine: (line: string) => Promise<void>,
): Promise<Killed> {
  const child = spawn(process.execPath, [...runtimeArguments(), `${FOLDER}/${program}`, ...args], {
    cwd: dirname(FOLDER),
    stdio: ["pipe", "pipe", "inherit"],
  });
  const killOnExit = () => void child.kill("SIGKILL");
  process.once("exit", killOnExit);
  // A line to a process that has just been killed.
  child.stdin.on("error", () => {});
  const ended = new Promise<number | string | null>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => resolve(code ?? signal));
  });
  ended.catch(() => {});

  const lines: string[] = [];
  let isKilled = false;
  child.stdin.write("\n");
  for await (const line of linesOf(child)) {
    lines.push(line);
    await onLine(line);
    if (isKilled) continue;
    child.stdin.write("\n");
    if (lines.length < answers) continue;
    isKilled = true;
    // Long enough for the next append to begin, too short for it to end for sure.
    await new Promise((resolve) => setTimeout(resolve, 1));
    child.kill("SIGKILL");
  }
  const end = await ended;
  process.off("exit", killOnExit);
  if (!isKilled) throw new Error(`The writer ended by itself (${end}) after ${lines.length} events`);
  return { pid: child.pid!, lines };
}

/** What the runtime must be told before the name of a program. */
function runtimeArguments(): readonly string[] {
  if ("Deno" in globalThis) return ["run", "--allow-all", "--no-check", "--quiet"];
  return process.execArgv;
}

/** Whole lines only: one that was cut short by the kill is not an answer. */
async function* linesOf(child: ChildProcess): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of child.stdout!.setEncoding("utf8")) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop()!;
    yield* lines;
  }
}
