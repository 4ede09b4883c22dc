/**
 * Uses a log and ends without closing it: PATH WHAT. It calls nothing that ends the process.
 */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { defineProjection, openLog } from "../../../mod.ts";
import { say } from "./say.ts";

const [path, what] = process.argv.slice(2) as [string, string];
const log = await openLog(path);
const thread = log.thread("a");
const ack = async (event: Promise<{ position: number }>) => say(`ack ${(await event).position}`);

switch (what) {
  case "put":
    for (let i = 0; i < 20; i++) await ack(thread.put("k", i));
    break;
  case "normal": {
    const other = await openLog(path, { durability: "normal" });
    for (let i = 0; i < 20; i++) await ack(other.thread("a").put("k", i));
    break;
  }
  case "worker":
    // Enough for a checkpoint on the thread beside.
    for (let i = 0; i < 120; i++) await ack(thread.append("said", "x".repeat(100_000)));
    break;
  case "verify":
    await ack(thread.put("k", 1));
    say(`ok ${(await log.verify()).ok}`);
    break;
  case "erase":
    await ack(thread.put("k", 1));
    await ack(thread.erase() as Promise<{ position: number }>);
    break;
  case "subscription": {
    const controller = new AbortController();
    const following = (async () => {
      for await (const event of log.subscribe({ signal: controller.signal })) say(`saw ${event.position}`);
      say("followed");
    })();
    for (let i = 0; i < 20; i++) await ack(thread.put("k", i));
    await sleep(100);
    controller.abort();
    await following;
    break;
  }
  case "break":
    await ack(thread.put("k", 1));
    for await (const event of log.subscribe()) {
      say(`saw ${event.position}`);
      break;
    }
    break;
  case "projection": {
    const evolve = (state: number) => state + 1;
    await log.project(defineProjection({ name: "inline", version: 1, initial: () => 0, evolve }));
    for (let i = 0; i < 20; i++) await ack(thread.put("k", i));
    break;
  }
  case "behind": {
    const evolve = (state: number) => state + 1;
    const behind = defineProjection({ name: "behind", version: 1, mode: "behind", initial: () => 0, evolve });
    const projection = await log.project(behind);
    for (let i = 0; i < 20; i++) await ack(thread.put("k", i));
    await projection.caughtUp();
    say(`state ${await projection.state()}`);
    break;
  }
  case "unawaited":
    for (let i = 0; i < 20; i++) void ack(thread.put("k", i));
    break;
  default:
    throw new Error(`Unknown: ${what}`);
}
say("end");
