/**
 * Appends for ever, several at a time, until it is killed: PATH SEED DURABILITY ROUND. Says what it tries, with the seed
 * from which the content follows, and what was acknowledged.
 */
import process from "node:process";
import { openLog } from "../../../mod.ts";
import { attempt } from "../crash_plan.ts";
import { say } from "./say.ts";

const [path, seed, durability, round] = process.argv.slice(2) as [string, string, "full" | "normal", string];
const log = await openLog(path, { durability, busyTimeoutMs: 30_000 });
let next = 0;
async function work(): Promise<void> {
  while (true) {
    const id = `${round}.${next++}`;
    say(`try ${id}`);
    const events = await attempt(log, Number(seed), id);
    say(`ack ${id} ${events.map(({ position }) => position).join(",")}`);
  }
}
await Promise.all(Array.from({ length: 6 }, work));
