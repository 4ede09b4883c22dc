/**
 * What the ladder loads: an app's store of events, each behind the same few operations.
 *
 * @module
 */

import { type Log, openLog } from "../../mod.ts";
import { text } from "../payloads.ts";
import { randoms } from "../payloads.ts";
import { RawSqlite } from "../raw.ts";

/** How many threads there are. */
export const THREADS = 10_000;
/** An event's payload, in bytes. */
const BYTES = 1000;
const REPLAYED = 100;

/** What a request asks for. */
export const OPERATIONS = ["append", "mix", "latest", "replay"] as const;
/** One of them. */
export type Operation = typeof OPERATIONS[number];

/** A store under load. */
export interface Contender {
  append(thread: number): Promise<unknown>;
  latest(thread: number): Promise<unknown>;
  replay(thread: number): Promise<unknown>;
  close(): Promise<void>;
}

/** The contenders, by name: opened over a file, or a server's URL. */
export const CONTENDERS: Readonly<
  Record<string, { readonly on: "sqlite" | "postgres"; open(at: string): Promise<Contender> }>
> = {
  "Threadlog, SQLite": { on: "sqlite", open: threadlog },
  "naive SQLite": { on: "sqlite", open: naiveSqlite },
  "Threadlog, PostgreSQL": { on: "postgres", open: threadlog },
  "naive PostgreSQL": { on: "postgres", open: naivePostgres },
};

const random = randoms(11);
const bodies = Array.from({ length: 64 }, () => text(BYTES, random));
let next = 0;

/** The next payload. */
function body(): { readonly text: string } {
  return { text: bodies[next++ % bodies.length]! };
}

function nameOf(thread: number): string[] {
  return ["t", String(thread)];
}

async function threadlog(at: string): Promise<Contender> {
  const log = await openLog(at, { durability: "full" });
  return {
    append: (thread) => log.thread(nameOf(thread)).put("last", body()),
    latest: (thread) => log.thread(nameOf(thread)).latest(),
    replay: async (thread) => {
      let count = 0;
      for await (const _ of log.thread(nameOf(thread)).replay({ reverse: true, limit: REPLAYED })) count++;
      return count;
    },
    close: () => log.close(),
  };
}

/** Fills a log with so many events, the same number in each thread but for the first ten, which have a hundred more. */
export async function fill(log: Log, events: number): Promise<void> {
  const size = 500;
  for (let from = 0; from < events; from += size) {
    await log.batch((batch) => {
      for (let i = from; i < Math.min(from + size, events); i++) batch.thread(nameOf(i % THREADS)).put("last", body());
    });
  }
}

/** A transaction for each append, as many an app does it. Its reads are not compared. */
// deno-lint-ignore require-await
async function naiveSqlite(at: string): Promise<Contender> {
  const raw = new RawSqlite(at, "FULL");
  const utf8 = new TextEncoder();
  const none = () => Promise.reject(new Error("not compared"));
  return {
    // deno-lint-ignore require-await
    append: async () => raw.put(utf8.encode(JSON.stringify(body()))),
    latest: none,
    replay: none,
    // deno-lint-ignore require-await
    close: async () => raw.close(),
  };
}

/** An INSERT for each append, on a pool of ten connections. Its reads are not compared. */
async function naivePostgres(at: string): Promise<Contender> {
  const { default: postgres } = await import("postgres");
  const sql = postgres(at, { max: 10, onnotice: () => {} });
  await sql`CREATE TABLE IF NOT EXISTS naive (position bigserial PRIMARY KEY, thread int, value jsonb NOT NULL)`;
  const none = () => Promise.reject(new Error("not compared"));
  return {
    append: async (thread) => await sql`INSERT INTO naive (thread, value) VALUES (${thread}, ${sql.json(body())})`,
    latest: none,
    replay: none,
    close: () => sql.end({ timeout: 1 }),
  };
}
