/**
 * Opens hostile files and asks for everything in them: MAX_VALUE_BYTES PATH... Prints a line of JSON for each: the errors
 * that were not typed, and the most memory that the process has taken so far, in MiB.
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import { type Log, openLog, ThreadlogError } from "../../mod.ts";
import { say } from "../support/children/say.ts";
import { all } from "../support/scratch.ts";

/** What it says of a file. */
export interface Outcome {
  readonly path: string;
  readonly untyped: readonly string[];
  readonly typed: readonly string[];
  readonly peakMib: number;
}

const [max, ...paths] = process.argv.slice(2) as [string, ...string[]];

/** The highest resident memory of this process, in MiB. */
function peakMib(): number {
  const [, kib] = /VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "latin1"))!;
  return Number(kib) / 1024;
}

/** Bun leaves the name of an error out of its stack. */
function textOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}\n${error.stack}` : String(error);
}

async function attack(path: string): Promise<Outcome> {
  const typed: string[] = [];
  const untyped: string[] = [];
  const attempt = async (what: string, action: () => Promise<unknown>) => {
    try {
      await action();
    } catch (error) {
      if (error instanceof ThreadlogError) typed.push(`${what}: ${error.code}`);
      else untyped.push(`${what}: ${textOf(error).slice(0, 800)}`);
    }
  };
  await attempt("open", async () => {
    const log: Log = await openLog(path, { durability: "normal", maxValueBytes: Number(max), cacheBytes: 1 << 20 });
    await attempt("threads", () => all(log.threads()));
    const head = await log.head().catch(() => 0);
    for (let position = 1; position <= Math.min(head, 30); position++) {
      await attempt(`event ${position}`, () => all(log.read({ after: position - 1, to: position })));
      await attempt(`at ${position}`, () => all(log.at({ position }).thread("a").entries()));
    }
    for (const name of ["a", "b"]) {
      const thread = log.thread(name);
      await attempt(`entries of ${name}`, () => all(thread.entries()));
      await attempt(`latest of ${name}`, () => thread.latest());
      await attempt(`history of ${name}`, () => all(thread.replay()));
      await attempt(`update of ${name}`, () => thread.update("k", (draft) => draft, { initial: 0 }));
      await attempt(`put to ${name}`, () => thread.put("other", 1));
    }
    await attempt("diff", () => all(log.diff(0, head)));
    await attempt("verify", () => log.verify());
    await attempt("stats", () => log.stats());
    await attempt("close", () => log.close());
  });
  const { polluted } = {} as { polluted?: unknown };
  if (polluted !== undefined) untyped.push("the prototype of all objects was changed");
  return { path, untyped, typed, peakMib: peakMib() };
}

say(JSON.stringify({ path: "", untyped: [], typed: [], peakMib: peakMib() } satisfies Outcome));
for (const path of paths) say(JSON.stringify(await attack(path)));
