/**
 * One round of one table on one runtime: `worker.ts TABLE ROUND [--quick | --full]`, its rows as JSON.
 *
 * @module
 */

import process from "node:process";
import { TABLES } from "./tables/mod.ts";

const [name, round, ...flags] = process.argv.slice(2);
const table = TABLES[name ?? ""];
if (table === undefined) throw new Error(`no table ${name}`);
const rows = await table.run({
  round: Number(round),
  quick: flags.includes("--quick"),
  full: flags.includes("--full"),
});
console.log(`@rows ${JSON.stringify(rows)}`);
