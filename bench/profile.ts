/**
 * Something to profile: 20,000 puts of 1 KiB at NORMAL, one after the other.
 * `bun --cpu-prof bench/profile.ts`, or `node --cpu-prof bench/profile.ts`.
 *
 * @module
 */

import { openLog } from "../mod.ts";
import { withFolder } from "./files.ts";
import { values } from "./payloads.ts";

const objects = values(1024);
await withFolder(async (path) => {
  await using log = await openLog(path("log.db"), { durability: "normal" });
  const thread = log.thread("profile");
  const start = performance.now();
  for (let i = 0; i < 20_000; i++) await thread.put(`k${i % 1000}`, objects[i % 64]!);
  console.log(`${((performance.now() - start) / 20).toFixed(1)} us a put`);
});
