/**
 * The process that is killed: it takes the story's steps, one for each line on its standard input, and prints each
 * event once the log has acknowledged it.
 *
 * @module
 */

import process from "node:process";
import { openLog } from "../mod.ts";
import { STORY, take, TRIP, type Trip } from "./demo_story.ts";

const log = await openLog(process.argv[2]!);
const thread = log.thread<Trip>(TRIP);
const steps = STORY.values();
read: for await (const chunk of process.stdin) {
  for (const byte of chunk as Uint8Array) {
    if (byte !== 10) continue;
    const { value: step, done } = steps.next();
    if (done) break read;
    process.stdout.write(JSON.stringify(await take(thread, step)) + "\n");
  }
}
await log.close();
