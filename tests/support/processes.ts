/**
 * Child processes for tests: this runtime again, and the others where they can be found.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** The runtimes that the library is for. */
export type Runtime = "bun" | "deno" | "node";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const CHILDREN = fileURLToPath(new URL("./children/", import.meta.url));

/** The runtime that runs this test. */
export const thisRuntime: Runtime = "Bun" in globalThis ? "bun" : "Deno" in globalThis ? "deno" : "node";

/** What stands before the path of a program. */
export const ARGUMENTS: Readonly<Record<Runtime, readonly string[]>> = {
  bun: ["run"],
  deno: ["run", "-A", "--no-check"],
  node: ["--disable-warning=ExperimentalWarning"],
};

function nodeCandidates(): string[] {
  const own = join(ROOT, "node_modules", `node-${process.platform}-${process.arch}`, "bin", "node");
  // `npm test` runs under some Node; npm leaves its path behind.
  return [own, process.env.npm_node_execpath ?? "", process.env.NODE ?? ""];
}

/** Where a runtime is; undefined where it can't be found. */
export function pathOf(runtime: Runtime): string | undefined {
  if (runtime === thisRuntime) return process.execPath;
  const candidates = runtime === "node" ? nodeCandidates() : [join(ROOT, "node_modules", ".bin", runtime)];
  return candidates.find((path) => path !== "" && existsSync(path));
}

/** The runtimes that can be found here. */
export const runtimes: readonly Runtime[] = (["bun", "deno", "node"] as const).filter((name) => pathOf(name));

/** Why a test of several runtimes at once can't run; false if it can. */
export const noOthers: string | false = runtimes.length > 1 ? false : "no other runtime is installed here";

/** A child: what it has printed so far, line by line, and how it ended. */
export interface Child {
  readonly process: ChildProcess;
  readonly lines: string[];
  /** Resolves when a line that begins so has been printed; rejects if the child ends before. */
  printed(start: string): Promise<string>;
  /** Resolves with the exit code, null after a signal. */
  readonly ended: Promise<number | null>;
  /** What it wrote to stderr. */
  errors(): string;
  /** Writes a line to its stdin. */
  say(line: string): void;
}

const living = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of living) child.kill("SIGKILL");
});

/** Starts a program of tests/support/children. */
export function start(runtime: Runtime, program: string, args: readonly string[] = []): Child {
  const path = pathOf(runtime);
  if (path === undefined) throw new Error(`${runtime} can't be found`);
  const file = program.startsWith("/") ? program : join(CHILDREN, program);
  const child = spawn(path, [...ARGUMENTS[runtime], file, ...args], { cwd: dirname(CHILDREN), stdio: "pipe" });
  living.add(child);
  const lines: string[] = [];
  const waiting = new Set<() => void>();
  let rest = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    const parts = (rest + text).split("\n");
    rest = parts.pop()!;
    lines.push(...parts);
    for (const look of waiting) look();
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => errors += text);
  // The child may be gone already when something is said to it.
  child.stdin.on("error", () => {});
  let over = false;
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      over = true;
      living.delete(child);
      resolve(code);
      for (const look of waiting) look();
    });
  });
  const printed = (start: string) =>
    new Promise<string>((resolve, reject) => {
      const look = () => {
        const found = lines.find((line) => line.startsWith(start));
        if (found === undefined && !over) return;
        waiting.delete(look);
        if (found !== undefined) resolve(found);
        else reject(new Error(`${runtime} ${program} ended without printing ${start}\n${errors}`));
      };
      waiting.add(look);
      look();
    });
  return {
    process: child,
    lines,
    printed,
    ended,
    errors: () => errors,
    say: (line) => void child.stdin.write(`${line}\n`),
  };
}

/** Waits for children to end well; throws with what they wrote to stderr otherwise. */
export async function allEnd(children: readonly Child[]): Promise<void> {
  for (const child of children) {
    const code = await child.ended;
    if (code !== 0) throw new Error(`A child ended with ${code}:\n${child.errors()}`);
  }
}

/** This runtime a number of times: for tests of one runtime. */
export function same(count: number): Runtime[] {
  return new Array<Runtime>(count).fill(thisRuntime);
}

/** All runtimes in turn, a number of times. */
export function mixed(count: number): Runtime[] {
  return Array.from({ length: count }, (_, i) => runtimes[i % runtimes.length]!);
}
