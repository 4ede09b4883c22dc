/**
 * Power cuts: the library is recorded as it writes, and opened again in states that a cut may leave. Then the check is
 * checked: writers that do something wrong must be caught.
 */
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { thisRuntime } from "../support/processes.ts";
import { cutPower, type Findings, type Inspection } from "./power_loss.ts";
import type { Plan } from "./plan.ts";
import { noRecorder, run, scratchFolder, type ShimOptions } from "./record.ts";
import type { Action, Task } from "./records.ts";
import { report } from "./table.ts";

/** Another one on each runtime, and the same in each run. */
const SEED = Number(process.env.THREADLOG_SEED ?? ["bun", "deno", "node"].indexOf(thisRuntime) + 1);
/** How many times as many states as usual. */
const RUNS = Number(process.env.THREADLOG_RUNS ?? 1);

interface Round {
  readonly task?: Partial<Task>;
  readonly shim?: ShimOptions;
  readonly bytes?: number;
  readonly promise?: Inspection["promise"];
  readonly states: number;
  /** Where the writer is killed before another goes on. */
  readonly killedAt?: string;
}

/** Small checkpoints, so that the WAL starts anew again and again within few records. */
const SMALL: Pick<Task, "duePages"> = { duePages: 10 };

/** Runs the writer of a round. */
async function recordRound(round: Round): Promise<{ plan: Plan; actions: readonly Action[] }> {
  const folder = scratchFolder();
  const plan = { seed: SEED, bytes: round.bytes ?? 300 };
  const task: Omit<Task, "record"> = {
    path: join(folder, "log.db"),
    plan,
    durability: "full",
    ...SMALL,
    first: 0,
    steps: 120,
    sessions: 3,
    lanes: 3,
    watch: true,
    ...round.task,
  };
  try {
    let recorded;
    if (round.killedAt === undefined) {
      recorded = await run(task, round.shim);
    } else {
      const killed = await run({ ...task, sessions: 1 }, { ...round.shim, fault: `kill:${round.killedAt}:0:once` });
      assert.equal(killed.code, null, `it was not killed: ${killed.errors}`);
      const tried = killed.actions.filter(({ what, ...rest }) => what === "note" && isTried(rest)).length;
      recorded = await run({ ...task, first: tried, steps: 20, sessions: 1 }, { ...round.shim, resume: true });
    }
    const { actions, code, errors } = recorded;
    assert.equal(code, 0, errors);
    for (const action of actions) {
      if (action.what === "note" && action.note.kind === "refused") assert.fail(JSON.stringify(action.note));
    }
    return { plan, actions };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function inspect(round: Round): Promise<Findings & { actions: readonly Action[] }> {
  const { plan, actions } = await recordRound(round);
  const { promise = "full", states } = round;
  return { ...await cutPower(plan, actions, { seed: SEED, states: states * RUNS, promise }), actions };
}

function isTried(action: object): boolean {
  return (action as { note: { kind: string } }).note.kind === "tried";
}

/** How often the WAL started anew: its header was written. */
function restarts(actions: readonly Action[]): number {
  return actions.filter((action) => action.what === "write" && action.file === 1 && action.offset === 0).length;
}

const VOLUME: Round = { task: { duePages: undefined, steps: 260 }, bytes: 60_000, states: 250 };

/** `restarts`: how often the WAL must have started, or the round shows nothing. How often it does is the machine's pace. */
const ROUNDS: Readonly<Record<string, Round & { readonly restarts?: number }>> = {
  "full, synced on a thread": { task: { syncMode: "async" }, states: 500, restarts: 3 },
  "full, synced inline": { task: { syncMode: "inline" }, states: 500, restarts: 3 },
  "full, one at a time": { task: { syncMode: "async", lanes: 1 }, states: 300, restarts: 3 },
  "full, with slow syncs": { task: { syncMode: "async" }, shim: { slowUs: 2000 }, states: 300, restarts: 3 },
  "full, with checkpoints as large as usual": { ...VOLUME, restarts: 2 },
  "full, killed at a sync of the WAL": {
    task: { duePages: undefined, syncMode: "async" },
    killedAt: "sync.wal:7",
    states: 150,
  },
  "full, killed at a sync in a checkpoint": { killedAt: "sync.db:5", states: 150 },
  "full, killed inside a write to the WAL": { killedAt: "write.wal:121", states: 150 },
  "full, killed inside a checkpoint": { killedAt: "write.db:30", states: 150 },
  "normal: a whole prefix": { task: { durability: "normal" }, promise: "prefix", states: 300, restarts: 3 },
};

const MUTANTS: Readonly<Record<string, Round>> = {
  "the library's own sync is dropped": { shim: { drop: "fdatasync" }, states: 80 },
  "SQLite's syncs are dropped": { shim: { drop: "fsync" }, states: 80 },
  "synced after the acknowledgement": { task: { durability: "normal", mutant: "late" }, states: 150 },
  "acknowledged before the commit": { task: { mutant: "eager" }, states: 80 },
  "normal is promised as full": { task: { durability: "normal" }, states: 80 },
  "shown before it is durable": { task: { durability: "normal" }, promise: "seen", states: 80 },
  "a batch in two transactions": { task: { mutant: "split" }, states: 80 },
};

const HEAD = "(SELECT max(position) FROM events)";
const INDEXED = `UPDATE meta SET value = ${HEAD} WHERE name = 'indexed'`;
const INDEX_VERSIONS = "INSERT OR IGNORE INTO versions SELECT thread, version, position FROM events";
const INDEX_KEYS = "INSERT OR IGNORE INTO keys SELECT thread, key, position FROM events WHERE key IS NOT NULL";
const INDEX_IDS = "INSERT OR IGNORE INTO ids SELECT thread, id, position FROM events WHERE id IS NOT NULL";

/** What a writer may get wrong in a state that is whole otherwise; each with the check that is to notice. */
const TAMPERINGS: Readonly<Record<string, { readonly word: string; readonly sql: readonly string[] }>> = {
  "an event is kept under another key": {
    word: "changed",
    sql: [
      "UPDATE events SET key = X'6f7468657200' WHERE position = (SELECT max(position) FROM events WHERE key NOTNULL)",
    ],
  },
  "an event's time is another": {
    word: "unverified",
    sql: [`UPDATE events SET time = time + 1 WHERE position = ${HEAD}`],
  },
  "the index lacks the keys": {
    word: "state",
    sql: [INDEX_VERSIONS, INDEX_IDS, "DELETE FROM keys", INDEXED],
  },
  "a projection is saved as of more than it has folded": {
    word: "projection",
    sql: [`INSERT OR REPLACE INTO projections VALUES (CAST('tally' AS BLOB), 1, ${HEAD}, X'80')`],
  },
  "the index lacks the ids": {
    word: "retry",
    sql: [INDEX_VERSIONS, INDEX_KEYS, "DELETE FROM ids", INDEXED],
  },
};

describe("after a power cut", { skip: noRecorder }, () => {
  for (const [name, round] of Object.entries(ROUNDS)) {
    it(`nothing is lost: ${name}`, async () => {
      const { states, bad, first, actions } = await inspect(round);
      report({ part: "power loss", name, states, bad });
      assert.equal(bad, 0, `seed ${SEED}: ${bad} of ${states} states are bad; ${first}`);
      assert.ok(states > 25, `only ${states} states`);
      assert.ok(restarts(actions) >= (round.restarts ?? 1), `the WAL started ${restarts(actions)} times`);
    });
  }
});

describe("the check has teeth", { skip: noRecorder }, () => {
  for (const [name, round] of Object.entries(MUTANTS)) {
    it(`mutant: ${name}`, async () => {
      const { states, bad, faults } = await inspect(round);
      const found = [...faults].map(([word, count]) => `${word} ${count}`).join(", ");
      report({ part: "mutant", name, states, bad, found });
      assert.ok(bad > 0, `seed ${SEED}: none of ${states} states is bad`);
    });
  }

  let recorded: ReturnType<typeof recordRound> | undefined;
  for (const [name, { word, sql }] of Object.entries(TAMPERINGS)) {
    it(`mutant: ${name}`, async () => {
      const { plan, actions } = await (recorded ??= recordRound({ states: 0 }));
      const inspection = { seed: SEED, states: 80, promise: "full", tampering: sql } as const;
      const { states, bad, faults, first } = await cutPower(plan, actions, inspection);
      const found = [...faults].map(([word, count]) => `${word} ${count}`).join(", ");
      report({ part: "mutant", name, states, bad, found });
      assert.ok(
        faults.has(word),
        `seed ${SEED}: of ${states} states none is ${word}, but ${found || "good"}; ${first}`,
      );
    });
  }
});
