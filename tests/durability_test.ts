/**
 * Case A10: a writer is killed hard at random moments, again and again. What it was told is kept is kept, and nothing is
 * there in part. THREADLOG_KILLS sets how often; the seeds are fixed.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { type Event, type Log, openLog } from "../mod.ts";
import { attempt, planOf, THREADS } from "./support/crash_plan.ts";
import { noOthers, type Runtime, runtimes, start, thisRuntime } from "./support/processes.ts";
import { all, inFolder, seeded, sleep } from "./support/scratch.ts";

const KILLS = Number(process.env.THREADLOG_KILLS ?? 10);
const MIXED_KILLS = Math.max(6, Math.floor(KILLS / 2));
/** The longest that a writer lives after its first acknowledgement, in milliseconds. */
const LONGEST_MS = 80;

interface Told {
  readonly tried: Set<string>;
  readonly acknowledged: Map<string, number[]>;
}

/** Runs a writer until it is killed, and notes what it said. */
async function crash(told: Told, runtime: Runtime, path: string, seed: number, durability: string, round: number) {
  const random = seeded(seed * 1000 + round);
  const child = start(runtime, "crash.ts", [path, `${seed}`, durability, `${round}`]);
  await child.printed("ack");
  await sleep(random() * LONGEST_MS);
  child.process.kill("SIGKILL");
  assert.equal(await child.ended, null);
  for (const line of child.lines) {
    const [word, id, positions] = line.split(" ") as [string, string, string];
    if (word === "try") told.tried.add(id);
    else if (word === "ack") told.acknowledged.set(id, positions.split(",").map(Number));
  }
}

/** The log holds all that was acknowledged, and everything in it is whole, in order and without gaps. */
async function check(log: Log, told: Told, seed: number): Promise<void> {
  const events = await all(log.read());
  assert.deepEqual(events.map(({ position }) => position), Array.from(events, (_, i) => i + 1));
  const versions = new Map<unknown, number>();
  const byId = new Map<string, Event[]>();
  for (const event of events) {
    const version = (versions.get(event.thread) ?? 0) + 1;
    assert.equal(event.version, version, `version of position ${event.position}`);
    versions.set(event.thread, version);
    byId.set(event.id, [...byId.get(event.id) ?? [], event]);
  }
  for (const [id, positions] of told.acknowledged) {
    assert.deepEqual(byId.get(id)?.map(({ position }) => position), positions, `${id} was acknowledged`);
  }
  for (const [id, found] of byId) {
    assert.ok(told.tried.has(id), `${id} was tried`);
    const { kind, thread, value } = planOf(seed, id);
    if (kind < 0.5) {
      assert.deepEqual(found.map((event) => [event.thread, event.type, event.value]), [[thread, "set", value]]);
    } else if (kind < 0.8) {
      const wanted = THREADS.map((name) => [name, "batched", { ...value, name }]);
      assert.deepEqual(found.map((event) => [event.thread, event.type, event.value]), wanted, `${id} is whole`);
      assert.equal(found.at(-1)!.position - found[0]!.position, THREADS.length - 1);
    } else {
      assert.equal(found.length, 1);
    }
  }
  for (const thread of THREADS) {
    const updates = [...byId].filter(([id, [event]]) => planOf(seed, id).kind >= 0.8 && event!.thread === thread);
    assert.equal((await log.thread(thread).get("counter"))?.count ?? 0, updates.length, `updates of ${thread}`);
  }
  const report = await log.verify();
  assert.deepEqual([report.ok, report.events], [true, events.length], JSON.stringify(report.first));
}

/** Trying again what was under way gives each event once, and what was acknowledged its old positions. */
async function retry(log: Log, told: Told, seed: number): Promise<void> {
  for (const id of told.tried) {
    const positions = (await attempt(log, seed, id)).map(({ position }) => position);
    const earlier = told.acknowledged.get(id);
    if (earlier !== undefined) assert.deepEqual(positions, earlier, id);
    else told.acknowledged.set(id, positions);
  }
}

async function crashAgainAndAgain(
  path: string,
  kills: number,
  who: (round: number) => Runtime,
  seed: number,
  durability: string,
) {
  const told: Told = { tried: new Set(), acknowledged: new Map() };
  let written = 0;
  for (let round = 0; round < kills; round++) {
    await crash(told, who(round), path, seed, durability, round);
    await using log = await openLog(path, { durability: "normal" });
    await check(log, told, seed);
    if (round % 5 === 4) {
      await retry(log, told, seed);
      await check(log, told, seed);
    }
    written = await log.head();
  }
  assert.ok(written > kills * 10, `only ${written} events were written`);
}

describe("A10 acknowledged appends", () => {
  for (const [n, durability] of (["full", "normal"] as const).entries()) {
    it(
      `survive that the writer is killed ${KILLS} times, at durability ${durability}`,
      inFolder((folder) => crashAgainAndAgain(join(folder, "a.db"), KILLS, () => thisRuntime, 10 + n, durability)),
    );
  }

  it(
    "survive it when each writer is of another runtime",
    { skip: noOthers },
    inFolder((folder) =>
      crashAgainAndAgain(join(folder, "a.db"), MIXED_KILLS, (round) => runtimes[round % runtimes.length]!, 20, "full")
    ),
  );

  it(
    "survive it while another process goes on writing",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const told: Told = { tried: new Set(), acknowledged: new Map() };
      await using log = await openLog(path, { durability: "normal", busyTimeoutMs: 30_000 });
      let running = true;
      const writing = (async () => {
        for (let i = 0; running; i++) {
          const id = `own.${i}`;
          told.tried.add(id);
          told.acknowledged.set(id, (await attempt(log, 30, id)).map(({ position }) => position));
          await sleep(1);
        }
      })();
      for (let round = 0; round < 4; round++) await crash(told, thisRuntime, path, 30, "full", round);
      running = false;
      await writing;
      await check(log, told, 30);
      await retry(log, told, 30);
      await check(log, told, 30);
    }),
  );
});
