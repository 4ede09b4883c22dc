/**
 * What the groups of properties share.
 *
 * @module
 */

import type { Bar } from "../bars.ts";
import type { Row, Scale } from "../measure.ts";
import type { Log } from "../../mod.ts";

/** Some properties: what must hold of their rows, and how these are measured. */
export interface Group {
  readonly bars: readonly Bar[];
  readonly run: (scale: Scale) => Promise<Row[]>;
}

/** A bar for what must not grow: the second side costs at most so many times what the first does. */
export function flat(property: string, name: string, base: string, side: string, atMost = 2): Bar {
  return { property, case: name, side, base, atMost };
}

/** A bar for what is counted. */
export function counted(property: string, name: string, side: string, atMost: number): Bar {
  return { property, case: name, side, atMost };
}

/** A row of something that was counted. */
export function count(name: string, side: string, counted: number): Row {
  return { case: name, side, unit: "count", p50: counted };
}

/** How often a log is asked for a thread while something runs. */
export async function asked(log: Log, run: () => Promise<unknown>): Promise<number> {
  const { thread, threads } = log;
  let count = 0;
  log.thread = ((...args: Parameters<typeof thread>) => (count++, thread.apply(log, args))) as typeof thread;
  log.threads = (...args: Parameters<typeof threads>) => (count++, threads.apply(log, args));
  try {
    await run();
  } finally {
    Object.assign(log, { thread, threads });
  }
  return count;
}

/** How many turns of the microtask queue something takes that needs nothing else. */
export async function turns(run: () => Promise<unknown>): Promise<number> {
  let done = false;
  const running = run().then(() => void (done = true));
  let count = 0;
  while (!done && count < 10_000) {
    await undefined;
    count++;
  }
  await running;
  return count;
}
