/**
 * Fails when Threadlog has become far slower: `bun bench/guard.ts`, or with Deno or Node. No absolute times: each ratio
 * is against something cheap that runs in turn with it, in this process, on the disk that it meets.
 *
 * How far is too far: twelve runs on three runtimes, on a noisy machine of two cores with other work going on, gave 4.2
 * to 5.2 for a put at NORMAL, 0.8 to 1.95 at FULL (the slower the disk, the less), and 1.0 to 1.13 for a long history
 * against a short one. LIMITS are 1.75 times the greatest of each: no run came near. It is caught when a step begins to
 * cost its history (100 times as long here), or when a put comes to cost two more syncs or twice the work. One more
 * sync on a fast disk is not: for that, read the table `floor`. When the library gets faster, lower them.
 *
 * @module
 */

import process from "node:process";
import { openLog } from "../mod.ts";
import { withFolder } from "./files.ts";
import { interleave, median } from "./measure.ts";
import { values } from "./payloads.ts";
import { RawSqlite } from "./raw.ts";

const ROUNDS = 5;
/** Puts until each has begun to use its WAL again: while it still grows, a sync costs more. */
const WAL_IS_FULL = 1200;
const LIMITS: Readonly<Record<string, number>> = {
  "put 1 KiB NORMAL / raw SQLite NORMAL": 9,
  "put 1 KiB FULL / raw SQLite FULL": 3.5,
  "latest of 5,000 keys / of 50": 2,
  "put into 5,000 keys / into 50": 2,
  "at(middle).get of 5,000 events / of 50": 2,
};

const objects = values(1024);
const bytes = objects.map((value) => new TextEncoder().encode(JSON.stringify(value)));
const found = new Map<string, number[]>();

async function compare(
  name: string,
  op: (i: number) => unknown,
  base: (i: number) => unknown,
  round: number,
  warmup = 100,
) {
  const sides = [{ name: "one", op }, { name: "base", op: base }];
  const [one, other] = await interleave(sides, { case: name, warmup, calls: 400, block: 50, round });
  found.set(name, [...found.get(name) ?? [], one!.p50 / other!.p50]);
}

for (let round = 0; round < ROUNDS; round++) {
  await withFolder(async (path) => {
    for (const durability of ["normal", "full"] as const) {
      const mode = durability === "full" ? "FULL" : "NORMAL";
      const log = await openLog(path(`${mode}.db`), { durability });
      const raw = new RawSqlite(path(`raw-${mode}.db`), mode);
      const thread = log.thread("guard");
      const put = (i: number) => thread.put(`k${i}`, objects[i % 64]!);
      await compare(`put 1 KiB ${mode} / raw SQLite ${mode}`, put, (i) => raw.put(bytes[i % 64]!), round, WAL_IS_FULL);
      raw.close();
      if (durability === "normal") await growth(log, round);
      await log.close();
    }
  });
}

async function growth(log: Awaited<ReturnType<typeof openLog>>, round: number): Promise<void> {
  for (const [name, count] of [["long", 5000], ["short", 50]] as const) {
    await log.batch((batch) => {
      for (let i = 0; i < count; i++) batch.thread(name).put(`k${i}`, i);
    });
  }
  const [long, short] = [log.thread("long"), log.thread("short")];
  await compare("latest of 5,000 keys / of 50", () => long.latest(), () => short.latest(), round);
  const at = (i: number) => long.at(2500 + i % 9).get("k7");
  await compare("at(middle).get of 5,000 events / of 50", at, (i) => short.at(25 + i % 9).get("k7"), round);
  const put = (i: number) => long.put(`k${i % 50}`, i);
  await compare("put into 5,000 keys / into 50", put, (i) => short.put(`k${i % 50}`, i), round);
}

for (const [name, limit] of Object.entries(LIMITS)) {
  const ratio = median(found.get(name)!);
  const good = ratio <= limit;
  console.log(`${good ? "ok  " : "FAIL"} ${name}: ${ratio.toFixed(2)} (at most ${limit})`);
  if (!good) process.exitCode = 1;
}
