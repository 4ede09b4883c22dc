/**
 * Several processes of all runtimes on one file: they append, write conditionally, update, fork, erase and follow, and
 * are stopped, continued and killed. Whoever follows from the start sees each event once and in order, and the
 * conditional writes and the reads are linearizable.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { openLog } from "../../mod.ts";
import { type Child, mixed, type Runtime, runtimes, start } from "../support/processes.ts";
import { all, inFolder, seeded, sleep } from "../support/scratch.ts";
import { runs, seed } from "../support/seed.ts";
import { END, REGISTERS, type Said } from "./contender.ts";
import { isLinearizable, type Operation } from "./linearizable.ts";
import { report } from "./table.ts";

const CONTENDER = fileURLToPath(new URL("contender.ts", import.meta.url));
const TURNS = runs(10);
/** How far two processes' clocks may be apart, in milliseconds. */
const SKEW_MS = 1;
const noClock = process.platform === "linux" ? false : "the clock that processes share is read from /proc";

interface Contender {
  readonly child: Child;
  killed: boolean;
}

function saidBy({ child }: Contender): Said[] {
  return child.lines.map((line) => JSON.parse(line) as Said);
}

/** The operations on one register, as all contenders told them. */
function historyOf(contenders: readonly Contender[], register: string): Operation[] {
  const history: Operation[] = [];
  for (const contender of contenders) {
    const said = saidBy(contender);
    const returns = new Map(said.flatMap((one) => one.kind === "return" ? [[one.id, one]] : []));
    for (const call of said) {
      if (call.kind !== "call" || call.register !== register) continue;
      const { id: token, expect } = call;
      const back = returns.get(token);
      const times = { from: call.from - SKEW_MS, to: back === undefined ? Infinity : back.to + SKEW_MS };
      if (back === undefined) {
        if (expect !== undefined) history.push({ ...times, kind: "write", token, expect, result: "unknown" });
      } else if (back.result === "read") {
        history.push({ ...times, kind: "read", token: back.token!, version: back.version });
      } else if (back.result === "done") {
        assert.equal(back.version, expect! + 1, `${token} has the version that follows`);
        history.push({ ...times, kind: "write", token, expect: expect!, result: "done" });
      } else {
        history.push({ ...times, kind: "refused", expect: expect!, actual: back.version });
      }
    }
  }
  return history;
}

/** Each contender saw each event once, in order: all up to where it ended, or to the end. */
function checkSeen(contender: Contender, lines: readonly string[]): void {
  // What was erased is seen by those who were quick enough.
  const isKept = (line: string) => !line.includes('["scratch",');
  const seen = saidBy(contender).flatMap((one) => one.kind === "saw" ? [JSON.stringify(one.line)] : []);
  const positions = seen.map((line) => JSON.parse(line)[0] as number);
  assert.ok(positions.every((position, i) => i === 0 || position > positions[i - 1]!), "in order, and once");
  const kept = seen.filter(isKept);
  assert.deepEqual(kept, lines.filter(isKept).slice(0, kept.length));
  if (!contender.killed) assert.equal(seen.at(-1), lines.at(-1));
}

async function contend(path: string): Promise<Contender[]> {
  const random = seeded(seed);
  const contenders: Contender[] = [];
  const add = async (runtime: Runtime) => {
    const name = `${runtime}${contenders.length}`;
    const contender = { child: start(runtime, CONTENDER, [path, name, `${seed + contenders.length}`]), killed: false };
    contenders.push(contender);
    await contender.child.printed('{"kind":"ready"');
  };
  const living = () => contenders.filter(({ killed }) => !killed);
  const some = () => living()[Math.floor(random() * living().length)]!;
  await Promise.all(mixed(Math.max(3, runtimes.length)).map(add));
  for (let turn = 1; turn <= TURNS; turn++) {
    await sleep(60 + random() * 100);
    const contender = some();
    if (turn % 5 === 0) {
      contender.killed = true;
      contender.child.process.kill("SIGKILL");
      await contender.child.ended;
      await add(runtimes[turn % runtimes.length]!);
    } else {
      // Deno's child.kill() closes the pipes, whatever the signal.
      process.kill(contender.child.process.pid!, "SIGSTOP");
      await sleep(20 + random() * 120);
      process.kill(contender.child.process.pid!, "SIGCONT");
    }
  }
  for (const { child } of living()) {
    child.say("stop");
    child.process.stdin!.end();
  }
  await Promise.all(living().map(({ child }) => child.printed('{"kind":"stopped"')));
  return contenders;
}

describe("contention", { skip: noClock }, () => {
  it(
    "between processes that are stopped, continued and killed leaves one history",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      const contenders = await contend(path);
      const acknowledged = contenders.flatMap(saidBy).filter((one) => one.kind === "acknowledged");
      {
        await using log = await openLog(path, { durability: "normal" });
        await log.thread("end").append(END, null);
        await Promise.all(
          contenders.filter(({ killed }) => !killed).map(({ child }) => child.printed('{"kind":"followed"')),
        );
        const events = await all(log.read());
        const lines = events.map(({ position, thread, version, type, id }) => {
          return JSON.stringify([position, thread, version, type, id]);
        });
        for (const contender of contenders) checkSeen(contender, lines);
        const byId = new Map<string, number[]>();
        for (const { id, position } of events) byId.set(id, [...byId.get(id) ?? [], position]);
        for (const { id, positions } of acknowledged) assert.deepEqual(byId.get(id), positions, `${id} is kept once`);
        const updates = events.filter(({ thread }) => thread === "counter").length;
        assert.equal(await log.thread("counter").get("n") ?? 0, updates, "no update is lost");
        const verified = await log.verify();
        assert.ok(verified.ok, JSON.stringify(verified.first));
      }
      await Promise.all(contenders.map(({ child }) => child.ended));
      const histories = REGISTERS.map((register) => historyOf(contenders, register));
      const operations = histories.flat();
      for (const history of histories) assert.ok(isLinearizable(history), `seed ${seed}: ${JSON.stringify(history)}`);
      for (const kind of ["read", "write"]) assert.ok(operations.some((one) => one.kind === kind), kind);
      assert.ok(acknowledged.length > TURNS, `only ${acknowledged.length} were acknowledged`);
      report({ part: "history", name: "contention", states: operations.length, bad: 0 });
      for (const [index, history] of histories.entries()) checkTeeth(history, index);
    }),
  );

  it("is decided by a check that has teeth", () => {
    const write = (from: number, to: number, expect: number, token: string, result: "done" | "unknown" = "done") => (
      { kind: "write", from, to, expect, token, result } as const
    );
    const read = (from: number, to: number, version: number, token: string) => (
      { kind: "read", from, to, version, token } as const
    );
    const good: readonly (readonly Operation[])[] = [
      [write(0, 1, 0, "a"), read(2, 3, 1, "a")],
      // What overlaps may come in either order.
      [write(0, 9, 0, "a"), read(1, 2, 0, ""), read(3, 4, 1, "a")],
      [write(0, 9, 0, "a"), { kind: "refused", from: 1, to: 8, expect: 0, actual: 1 }],
      // What never returned may have been done, at any time, or not.
      [write(0, Infinity, 0, "a", "unknown"), read(5, 6, 0, ""), read(7, 8, 1, "a"), write(9, 10, 1, "b")],
      [write(0, Infinity, 0, "a", "unknown"), write(1, 2, 0, "b"), read(3, 4, 1, "b")],
    ];
    for (const history of good) assert.ok(isLinearizable(history), JSON.stringify(history));
    const bad: Readonly<Record<string, readonly Operation[]>> = {
      "a stale read": [write(0, 1, 0, "a"), read(2, 3, 0, "")],
      "a lost write": [write(0, 1, 0, "a"), write(2, 3, 0, "b")],
      "both writes were accepted": [write(0, 5, 0, "a"), write(1, 6, 0, "b")],
      "reads go back": [write(0, 9, 0, "a"), read(1, 2, 1, "a"), read(3, 4, 0, "")],
      "a write out of nowhere": [write(0, 1, 0, "a"), read(2, 3, 2, "b")],
      "refused although nothing was there": [{ kind: "refused", from: 0, to: 1, expect: 0, actual: 1 }],
      "a write before it was called": [read(0, 1, 1, "a"), write(2, 3, 0, "a")],
    };
    for (const [name, history] of Object.entries(bad)) assert.equal(isLinearizable(history), false, name);
  });
});

/** What was recorded, changed in one place, is refused. */
function checkTeeth(history: readonly Operation[], index: number): void {
  const reads = history.filter((one) => one.kind === "read").sort((a, b) => a.from - b.from);
  const first = reads.find(({ token }) => token !== "");
  const last = reads.findLast((one) => first !== undefined && one.token !== first.token && one.from > first.to);
  const without = (one: Operation) => history.filter((other) => other !== one);
  let mutants = 0;
  if (first !== undefined && last !== undefined) {
    const { token, version } = first;
    assert.equal(isLinearizable([...without(last), { ...last, token, version }]), false, "a stale read");
    const swapped = { ...first, token: last.token, version: last.version };
    assert.equal(isLinearizable([...without(first), swapped]), false, "a read of what was not there yet");
    mutants += 2;
  }
  const writes = history.filter((one) => one.kind === "write" && one.result === "done");
  for (const write of [writes[Math.floor(writes.length / 2)]].filter((one) => one !== undefined)) {
    const isRead = history.some((one) => one.from > write.to && one.kind !== "refused");
    if (!isRead) continue;
    assert.equal(isLinearizable(without(write)), false, "a lost write");
    mutants++;
  }
  report({ part: "mutant", name: `contention, register ${index}`, states: mutants, bad: mutants });
}
