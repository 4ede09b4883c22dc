/**
 * A subscriber in a process of its own: `watcher.ts TARGET SECONDS`. Prints how late events come: from the time that they
 * bear to when they are seen, in milliseconds, both by this machine's clock.
 *
 * @module
 */

import process from "node:process";
import { openLog } from "../../mod.ts";
import { percentile } from "../measure.ts";

const [target, seconds] = process.argv.slice(2) as [string, string];
const log = await openLog(target, { readOnly: false });
const late: number[] = [];
const signal = AbortSignal.timeout(Number(seconds) * 1000);
console.log("ready");
for await (const { time } of log.subscribe({ after: await log.head(), signal })) late.push(Date.now() - time);
await log.close();
const sorted = Float64Array.from(late).sort();
const at = (part: number) => percentile(sorted, part);
console.log(`@lag ${JSON.stringify({ count: late.length, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) })}`);
process.exit(0);
