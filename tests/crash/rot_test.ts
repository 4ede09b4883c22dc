/**
 * Rot: bits flipped and bytes cut anywhere in the database and in the WAL of a log that was not closed. Opening neither
 * crashes nor hangs, every error is typed, `verify()` finds whatever changes what the API returns, and what is not
 * touched stays readable.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { type Log, openLog, ThreadlogError, type VerifyReport } from "../../mod.ts";
import { rawConnection, seeded } from "../support/scratch.ts";
import { runs, seed } from "../support/seed.ts";
import { type Damage, flip, TO_DATABASE, TO_WAL } from "./damage.ts";
import { scratchFolder } from "./record.ts";
import { PAGE, type Specimen, specimen } from "./specimen.ts";
import { report as tell } from "./table.ts";

/** Everything that an app can ask a log, with what it answered: a value, or the code of an error. */
type Answers = Map<string, unknown>;

/** More than there is of anything. */
const MOST = 1000;

async function ask(answers: Answers, question: string, answer: () => Promise<unknown>): Promise<void> {
  try {
    answers.set(question, await answer());
  } catch (error) {
    answers.set(question, `error: ${codeOf(error, question)}`);
  }
}

/** The code of an error, which must be typed. */
function codeOf(error: unknown, during: string): string {
  if (error instanceof ThreadlogError) return error.code;
  assert.fail(`${during}: ${(error as Error).name}: ${(error as Error).message}\n${(error as Error).stack}`);
}

/** As much as there can be: a damaged index may lead round in circles. */
async function some<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) if (found.push(item) === MOST) break;
  return found;
}

/** Asks for events one by one, so that a damaged one does not hide the others. */
async function askAll(log: Log, good: Specimen): Promise<Answers> {
  const answers: Answers = new Map();
  const head = good.events.at(-1)!.position;
  await ask(answers, "head", () => log.head());
  await ask(answers, "threads", () => some(log.threads()));
  for (let position = 1; position <= head; position++) {
    await ask(answers, `event ${position}`, () => some(log.read({ after: position - 1, to: position })));
  }
  for (const name of new Set(good.events.map(({ thread }) => thread as string))) {
    const thread = log.thread(name);
    await ask(answers, `head of ${name}`, () => thread.head());
    await ask(answers, `entries of ${name}`, () => some(thread.entries()));
    await ask(answers, `latest of ${name}`, async () => (await thread.latest()) ?? null);
    await ask(answers, `history of ${name}`, async () => (await some(thread.replay())).map(({ position }) => position));
  }
  // At many points of the past.
  for (let position = 1; position <= head; position += 13) {
    const view = log.at({ position });
    await ask(answers, `threads at ${position}`, () => some(view.threads()));
    for (const name of ["a", "b", "c"]) {
      await ask(answers, `${name} at ${position}`, () => some(view.thread(name).entries()));
      await ask(answers, `latest of ${name} at ${position}`, async () => (await view.thread(name).latest()) ?? null);
    }
  }
  return answers;
}

interface Looked {
  readonly answers: Answers;
  readonly verified: VerifyReport;
}

/** Opens damaged files and asks everything; undefined where opening was refused, by a typed error. */
async function look(folder: string, good: Specimen, database: Buffer, wal: Buffer): Promise<Looked | undefined> {
  const path = join(folder, "bad.db");
  for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
  writeFileSync(path, database);
  if (wal.length > 0) writeFileSync(`${path}-wal`, wal);
  let log: Log;
  try {
    log = await openLog(path, { durability: "normal" });
  } catch (error) {
    codeOf(error, "opening");
    return undefined;
  }
  try {
    const verified = await verify(log);
    return { answers: await askAll(log, good), verified };
  } finally {
    await log.close();
  }
}

async function verify(log: Log): Promise<VerifyReport> {
  try {
    return await log.verify();
  } catch (error) {
    codeOf(error, "verify");
    return { ok: false, events: 0, position: 0, faults: 1, first: undefined };
  }
}

function differences(right: Answers, { answers }: Looked): string[] {
  return [...right].filter(([question, answer]) => !isDeepStrictEqual(answers.get(question), answer)).map(([q]) => q);
}

describe("rot", () => {
  let folder: string;
  let closed: Specimen;
  let open: Specimen;
  const right = new Map<Specimen, Answers>();
  before(async () => {
    folder = scratchFolder();
    closed = await specimen(join(folder, "closed.db"), seed, 60, true);
    open = await specimen(join(folder, "open.db"), seed, 60, false);
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
    for (const good of [closed, open]) {
      const looked = await look(folder, good, good.database, good.wal);
      assert.ok(looked?.verified.ok, JSON.stringify(looked?.verified.first));
      right.set(good, looked.answers);
    }
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  /** Looks at one damage; whether anything was found to be wrong. */
  async function once(good: Specimen, damage: Damage, random: () => number, mayEndSooner: boolean): Promise<boolean> {
    const { database, wal, what } = damage(good, random);
    const looked = await look(folder, good, database, wal);
    if (looked === undefined) return true;
    const changed = differences(right.get(good)!, looked);
    if (changed.length === 0) return !looked.verified.ok;
    // A WAL that is cut ends sooner, and nothing can tell; but it is whole.
    if (mayEndSooner && looked.verified.ok && (looked.answers.get("head") as number) < good.events.at(-1)!.position) {
      return true;
    }
    assert.equal(looked.verified.ok, false, `${what}: verify sees nothing, but these changed: ${changed.slice(0, 12)}`);
    const { first } = looked.verified;
    if (first !== undefined) assert.ok(first.reason.length > 10 && first.position >= 0);
    return true;
  }

  it("of the database is found, wherever it changes an answer", async () => {
    const random = seeded(seed);
    let found = 0;
    const states = runs(TO_DATABASE.length);
    for (let n = 0; n < states; n++) {
      if (await once(closed, TO_DATABASE[n % TO_DATABASE.length]!, random, false)) found++;
    }
    tell({ part: "rot", name: "database", states, bad: 0, found: `${found} noticed` });
    assert.ok(found > states / 4, `only ${found}`);
  });

  it("of a WAL is found, or the log ends sooner", async () => {
    const random = seeded(seed);
    const states = runs(TO_WAL.length);
    for (let n = 0; n < states; n++) await once(open, TO_WAL[n % TO_WAL.length]!, random, true);
    tell({ part: "rot", name: "WAL", states, bad: 0 });
  });

  for (const table of ["meta", "threads", "sqlite_autoindex_threads_1", "bases", "versions", "keys", "ids", "events"]) {
    it(`of ${table} is found, wherever it changes an answer`, async () => {
      const random = seeded(seed + table.length);
      const pages = pagesUnder(folder, closed, table);
      assert.ok(pages.length > 0, table);
      const states = runs(4);
      const unseen: string[] = [];
      for (let n = 0; n < states; n++) {
        const page = pages[Math.floor(random() * pages.length)]!;
        const [from, to] = contentOf(closed.database, page);
        const damage: Damage = ({ database, wal }) => {
          const bytes = Buffer.from(database);
          flip(bytes, from, to, 1, random);
          return { database: bytes, wal, what: `a bit of ${table}` };
        };
        await once(closed, damage, random, false).catch((error) => unseen.push((error as Error).message));
      }
      tell({ part: "rot", name: table, states, bad: unseen.length });
      assert.deepEqual(unseen, []);
    });
  }
});

/** The pages of a table or index: its root, or what that leads to. */
function pagesUnder(folder: string, { database }: Specimen, name: string): number[] {
  const path = join(folder, "look.db");
  writeFileSync(path, database);
  const connection = rawConnection(path);
  let root: number;
  try {
    root = connection.prepare("SELECT rootpage FROM sqlite_schema WHERE name = ?").get(name)!.rootpage as number;
  } finally {
    connection.close();
  }
  const pages: number[] = [];
  const visit = (page: number): void => {
    const start = (page - 1) * PAGE;
    const kind = database[start]!;
    pages.push(page - 1);
    if (kind === 0x0d || kind === 0x0a) return;
    visit(database.readUInt32BE(start + 8));
    for (let i = 0; i < database.readUInt16BE(start + 3); i++) {
      visit(database.readUInt32BE(start + database.readUInt16BE(start + 12 + 2 * i)));
    }
  };
  visit(root);
  return pages;
}

/** The part of a page that holds cells. */
function contentOf(database: Buffer, page: number): [number, number] {
  const start = page * PAGE;
  return [start + (database.readUInt16BE(start + 5) || PAGE), start + PAGE];
}
