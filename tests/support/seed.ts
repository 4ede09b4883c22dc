/**
 * The seed of random tests: the same in every run, unless THREADLOG_SEED names another. THREADLOG_RUNS multiplies how
 * often they run; THREADLOG_PROPERTY_MS bounds how long.
 */
import process from "node:process";

/** The seed. */
export const seed: number = number("THREADLOG_SEED", 20_261_201);
const factor = number("THREADLOG_RUNS", 1);

/** How often to run what runs `usual` times by default. */
export function runs(usual: number): number {
  return Math.ceil(usual * factor);
}

/** How long one property may take, in milliseconds, however few its runs are by then. */
export function timeLimit(usual: number): number {
  return Math.min(usual, number("THREADLOG_PROPERTY_MS", usual));
}

function number(name: string, fallback: number): number {
  const text = process.env[name];
  if (text === undefined || text === "") return fallback;
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`${name} must be a number, not ${text}`);
  return value;
}
