/**
 * Appends to a log, opening and closing it in rounds, once it is told to go: PATH NAME ROUNDS EVENTS [DURABILITY].
 * Prints the position of each append that was acknowledged.
 */
import process from "node:process";
import { createInterface } from "node:readline";
import { openLog } from "../../../mod.ts";
import { say } from "./say.ts";

const [path, name, rounds, events, durability = "normal"] = process.argv.slice(2) as string[];
const go = Promise.withResolvers<void>();
const input = createInterface({ input: process.stdin }).once("line", () => go.resolve());
say("ready");
await go.promise;
input.close();
for (let round = 0; round < Number(rounds); round++) {
  await using log = await openLog(path!, { durability: durability as "full" | "normal", busyTimeoutMs: 30_000 });
  for (let i = 0; i < Number(events); i++) {
    const event = await log.thread("shared").append("noted", { name, round, i });
    say(`ack ${event.position} ${event.version}`);
  }
}
