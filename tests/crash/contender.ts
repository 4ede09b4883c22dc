/**
 * One of several processes on one file: PATH NAME SEED. It appends, writes registers conditionally, reads them, counts,
 * forks and erases until it is told to stop, and follows the whole log from the start. Every line it prints is JSON.
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { ConflictError, type Log, openLog } from "../../mod.ts";
import { say } from "../support/children/say.ts";
import { seeded } from "../support/scratch.ts";

/** What a contender says. Times are in milliseconds of a clock that all processes share. */
export type Said =
  | { readonly kind: "ready" | "stopped" | "followed" }
  | { readonly kind: "saw"; readonly line: readonly unknown[] }
  | { readonly kind: "acknowledged"; readonly id: string; readonly positions: readonly number[] }
  | {
    readonly kind: "call";
    readonly id: string;
    readonly register: string;
    readonly from: number;
    readonly expect?: number;
  }
  | {
    readonly kind: "return";
    readonly id: string;
    readonly to: number;
    readonly result: "done" | "refused" | "read";
    readonly version: number;
    readonly token?: string;
  };

export const REGISTERS = ["r0", "r1"];
/** The last event of a run. */
export const END = "the end";
const TICKS = 6;

function tell(said: Said): void {
  say(JSON.stringify(said));
}

/**
 * The clock of the machine. process.hrtime() would be it, but on Bun and Deno that begins with the process; so it is set
 * by the moments at which /proc/uptime, which shows hundredths of seconds, changes. Seen late it would be set too low.
 */
function sharedClock(): () => number {
  const uptime = () => Number(readFileSync("/proc/uptime", "latin1").split(" ")[0]) * 1000;
  let offset = -Infinity;
  for (let tick = 0; tick < TICKS; tick++) {
    const before = uptime();
    let now = before;
    while (now === before) now = uptime();
    offset = Math.max(offset, now - performance.now());
  }
  return () => performance.now() + offset;
}

async function main(path: string, name: string, seed: number): Promise<void> {
  const clock = sharedClock();
  await using log = await openLog(path, { durability: "normal", busyTimeoutMs: 60_000 });
  let isOver = false;
  createInterface({ input: process.stdin }).once("line", () => isOver = true).once("close", () => isOver = true);
  const following = follow(log);
  tell({ kind: "ready" });
  const lanes = [0, 1].map(async (lane) => {
    const random = seeded(seed * 10 + lane);
    for (let n = 0; !isOver; n++) {
      await step(log, `${name}.${lane}.${n}`, random, clock);
      await sleep(random() * 4);
    }
  });
  await Promise.all(lanes);
  tell({ kind: "stopped" });
  await following;
  tell({ kind: "followed" });
  process.stdin.destroy();
}

async function follow(log: Log): Promise<void> {
  for await (const { position, thread, version, type, id } of log.subscribe()) {
    tell({ kind: "saw", line: [position, thread, version, type, id] });
    if (type === END) return;
  }
}

async function step(log: Log, id: string, random: () => number, clock: () => number): Promise<void> {
  const chance = random();
  const register = REGISTERS[Math.floor(random() * REGISTERS.length)]!;
  if (chance < 0.3) return await write(log, id, register, clock);
  if (chance < 0.55) return await read(log, id, register, clock);
  const positions: number[] = [];
  if (chance < 0.75) {
    positions.push((await log.thread(`t${Math.floor(random() * 3)}`).append("noted", { id }, { id })).position);
  } else if (chance < 0.85) {
    positions.push((await log.thread("counter").update("n", (n) => n + 1, { id, initial: 0 })).position);
  } else if (chance < 0.9) {
    await log.thread(register).fork(`${register} of ${id}`).catch((error) => refused(error, "not_found"));
  } else if (chance < 0.95) {
    const events = await log.batch((batch) => {
      for (const name of ["t0", "t1"]) batch.thread(name).append("batched", { id }, { id });
    });
    positions.push(...events.map(({ position }) => position));
  } else {
    const scratch = log.thread(["scratch", id]);
    await scratch.put("k", id);
    await scratch.erase({ scrub: false });
  }
  if (positions.length > 0) tell({ kind: "acknowledged", id, positions });
}

function refused(error: unknown, code: string): void {
  if ((error as { code?: string }).code !== code) throw error;
}

async function write(log: Log, id: string, register: string, clock: () => number): Promise<void> {
  const thread = log.thread(register);
  const { version: expect } = await thread.head();
  tell({ kind: "call", id, register, from: clock(), expect });
  try {
    const { version, position } = await thread.put("token", id, { id, expect: expect === 0 ? "new" : expect });
    tell({ kind: "return", id, to: clock(), result: "done", version });
    tell({ kind: "acknowledged", id, positions: [position] });
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error;
    tell({ kind: "return", id, to: clock(), result: "refused", version: error.actual });
  }
}

async function read(log: Log, id: string, register: string, clock: () => number): Promise<void> {
  tell({ kind: "call", id, register, from: clock() });
  // Another process may have been told of its append in this very turn.
  await log.refresh();
  const entry = await log.snapshot().thread(register).latest();
  const [version, token] = entry === undefined ? [0, ""] : [entry.version, entry.value as string];
  tell({ kind: "return", id, to: clock(), result: "read", version, token });
}

if (process.argv[2] !== undefined && process.argv[1]?.endsWith("contender.ts")) {
  const [path, name, seed] = process.argv.slice(2) as [string, string, string];
  await main(path, name, Number(seed));
}
