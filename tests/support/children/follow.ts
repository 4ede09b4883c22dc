/** Subscribes to a log and prints what it sees: PATH COUNT. Appends one event of its own first. */
import process from "node:process";
import { openLog } from "../../../mod.ts";
import { say } from "./say.ts";

const [path, count] = process.argv.slice(2) as [string, string];
await using log = await openLog(path);
await log.thread("child").put("k", "here");
let seen = 0;
for await (const event of log.subscribe({ prefix: "parent" })) {
  say(`saw ${event.version} ${JSON.stringify(event.value)}`);
  if (++seen === Number(count)) break;
}
