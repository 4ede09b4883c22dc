/**
 * What the crash tests found, for the table at the end of `npm run test:crash`: a line of JSON each, in the file that
 * THREADLOG_CRASH_TABLE names.
 */
import { appendFileSync } from "node:fs";
import process from "node:process";
import { thisRuntime } from "../support/processes.ts";

/** One line. */
export interface Line {
  readonly part: "power loss" | "mutant" | "fault" | "salvage" | "rot" | "history" | "hostile";
  readonly name: string;
  /** How many states, or runs, were looked at; and how many were bad. */
  readonly states: number;
  readonly bad: number;
  /** Which faults were met. */
  readonly found?: string;
}

/** Adds a line. */
export function report(line: Line): void {
  const path = process.env.THREADLOG_CRASH_TABLE;
  if (path) appendFileSync(path, `${JSON.stringify({ runtime: thisRuntime, ...line })}\n`);
}
