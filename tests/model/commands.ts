/**
 * The commands that a random run is made of.
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import { sameEverything, sameLog } from "./agreement.ts";
import * as reads from "./reads.ts";
import { type Expected, IDS, type Session, turn } from "./session.ts";
import * as writes from "./writes.ts";

type Run<Args> = (expected: Expected, session: Session, args: Args) => Promise<void> | void;

/** A command with its arguments: prints as what it does. */
class Step<Args extends readonly unknown[]> implements fc.AsyncCommand<Expected, Session> {
  readonly #name: string;
  readonly #args: Args;
  readonly #run: Run<Args>;

  constructor(name: string, args: Args, run: Run<Args>) {
    this.#name = name;
    this.#args = args;
    this.#run = run;
  }

  check(): boolean {
    return true;
  }

  async run(expected: Expected, session: Session): Promise<void> {
    await this.#run(expected, session, this.#args);
  }

  toString(): string {
    return `${this.#name}(${this.#args.map((arg) => fc.stringify(arg)).join(", ")})`;
  }
}

type Arbitraries<Args> = { [I in keyof Args]: fc.Arbitrary<Args[I]> };

function step<Args extends readonly unknown[]>(
  name: string,
  args: Arbitraries<Args>,
  run: Run<Args>,
): fc.Arbitrary<fc.AsyncCommand<Expected, Session>> {
  return fc.tuple(...args as unknown as fc.Arbitrary<unknown>[]).map((values) =>
    new Step(name, values as unknown as Args, run)
  );
}

const log = fc.nat({ max: 1 });
const id = fc.constantFrom(...IDS);
const prefix = fc.constantFrom([] as const, ...IDS);
const choice = fc.nat({ max: 1000 });
const pair = fc.tuple(choice, choice);
const triple = fc.tuple(choice, choice, choice);
const target: fc.Arbitrary<writes.Target> = fc.record({ by: fc.constantFrom("version", "position"), choice });
const types = fc.option(fc.subarray(["set", "patch", "delete", "fork", "said"], { minLength: 1 }), { nil: undefined });

const writing = [
  step("write", [log, writes.write, writes.expectation], (e, s, args) => writes.writeOne(e, s, ...args)),
  step("write", [log, writes.write, writes.expectation], (e, s, args) => writes.writeOne(e, s, ...args)),
  step("write", [log, writes.write, writes.expectation], (e, s, args) => writes.writeOne(e, s, ...args)),
  step(
    "batch",
    [log, fc.array(writes.write, { minLength: 1, maxLength: 5 }), writes.expectation],
    (e, s, args) => writes.writeBatch(e, s, ...args),
  ),
  step(
    "together",
    [log, fc.array(writes.write, { minLength: 2, maxLength: 6 })],
    (e, s, args) => writes.writeTogether(e, s, ...args),
  ),
  step("repeat", [log, choice], (e, s, args) => writes.repeat(e, s, ...args)),
  step("fork", [log, id, id, fc.option(target, { nil: undefined })], (e, s, args) => writes.fork(e, s, ...args)),
  step("fork", [log, id, id, fc.option(target, { nil: undefined })], (e, s, args) => writes.fork(e, s, ...args)),
  step("restore", [log, id, target], (e, s, args) => writes.restore(e, s, ...args)),
  step("erase", [log, id], (e, s, args) => writes.erase(e, s, ...args)),
];

const reading = [
  step("snapshot", [log], (e, s, args) => reads.snapshot(e, s, ...args)),
  step("readSnapshot", [choice], (e, _s, args) => reads.readSnapshot(e, ...args)),
  step("readVersion", [log, id, choice], (e, s, args) => reads.readVersion(e, s, ...args)),
  step("readPosition", [log, id, choice], (e, s, args) => reads.readPosition(e, s, ...args)),
  step("readTime", [log, id, choice], (e, s, args) => reads.readTime(e, s, ...args)),
  step("diffLog", [log, pair, prefix], (e, s, args) => reads.diffLog(e, s, ...args)),
  step("diffThread", [log, id, pair], (e, s, args) => reads.diffThread(e, s, ...args)),
  step("replayPart", [log, id, triple, fc.boolean()], (e, s, args) => reads.replayPart(e, s, ...args)),
  step("readPart", [log, triple, prefix, types], (e, s, args) => reads.readPart(e, s, ...args)),
  step(
    "listPart",
    [log, prefix, fc.option(id, { nil: undefined }), fc.nat({ max: 5 })],
    (e, s, args) => reads.listPart(e, s, ...args),
  ),
];

const rare = [
  step("eraseBelow", [log, id], (e, s, args) => writes.eraseBelow(e, s, ...args)),
  step("tick", [fc.integer({ min: -20, max: 50 })], (_e, s, [by]) => void (s.now += by)),
  step("everything", [log], (e, s, [reader]) => sameEverything(s.log(reader), e)),
  step("reopen", [], reopen),
];

async function reopen(expected: Expected, session: Session): Promise<void> {
  if (!session.durable) return;
  await session.close();
  // Snapshots end with the log that they are of.
  expected.snapshots.length = 0;
  await session.open();
  await sameLog(session.log(0), expected);
}

/** Random runs. */
export const commands: fc.Arbitrary<Iterable<fc.AsyncCommand<Expected, Session>>> = fc.commands(
  [...writing, ...writing, ...reading, ...rare],
  { maxCommands: 60, size: "max" },
);

/** What must hold at the end of a run: everything agrees, on each log, and once more after opening it again. */
export async function finish(expected: Expected, session: Session): Promise<void> {
  await turn();
  for (const log of session.logs) await sameEverything(log, expected);
  await reopen(expected, session);
  for (const log of session.logs) await sameEverything(log, expected);
  for (const log of session.logs) assert.equal((await log.stats()).position, expected.log.position);
}
