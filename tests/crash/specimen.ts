/**
 * A log with a bit of everything, to be damaged: where each event's row lies in its file, and what it builds on.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { Buffer } from "node:buffer";
import { type Event, type Log, openLog } from "../../mod.ts";
import { openTuned } from "../../log/open.ts";
import { all, rawConnection, seeded } from "../support/scratch.ts";

export const PAGE = 8192;

/** What was written. */
export interface Specimen {
  readonly database: Buffer;
  /** Empty, if the log was closed. */
  readonly wal: Buffer;
  readonly events: readonly Event[];
  /** By position: the events without which an event can't be read. */
  readonly bases: ReadonlyMap<number, readonly number[]>;
  /** By position: what marks the event's row and occurs nowhere else. */
  readonly marks: ReadonlyMap<number, string>;
  /** The pages, from 0, that hold the names of the threads: each is in both. */
  readonly names: readonly number[];
  /** Events that take more than a page. */
  readonly large: ReadonlySet<number>;
}

/** Writes a log; if it is not closed, most of it is in the WAL. */
export async function specimen(path: string, seed: number, steps: number, closed: boolean): Promise<Specimen> {
  const log = closed ? await openLog(path, { durability: "normal" }) : await openTuned(path, { durability: "normal" }, {
    duePages: 100_000,
  });
  await write(log, seed, steps);
  const events = await all(log.read());
  if (closed) await log.close();
  const [database, wal] = await snapshot(path);
  const { bases, names } = tablesOf(path, events);
  if (!closed) await log.close();
  const marks = new Map(events.flatMap(({ position, meta }) => meta === undefined ? [] : [[position, markOf(meta)]]));
  const large = new Set(events.filter(isLarge).map(({ position }) => position));
  return { database, wal, events, bases, marks, names, large };
}

function markOf(meta: unknown): string {
  return (meta as { mark: string }).mark;
}

function isLarge({ value }: Event): boolean {
  return JSON.stringify(value ?? null).length > 3000;
}

/** Not by this process: reading the file would drop SQLite's locks. */
function snapshot(path: string): Promise<[Buffer, Buffer]> {
  const copy = `${path}.copy`;
  for (const suffix of ["", "-wal"]) spawnSync("cp", [path + suffix, copy + suffix]);
  const read = (path: string) => {
    try {
      return readFileSync(path);
    } catch {
      return Buffer.alloc(0);
    }
  };
  return Promise.resolve([read(copy), read(`${copy}-wal`)]);
}

async function write(log: Log, seed: number, steps: number): Promise<void> {
  const random = seeded(seed);
  const pick = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)]!;
  const token = () => Math.floor(random() * 2 ** 52).toString(36).padStart(11, "0");
  const meta = () => ({ meta: { mark: `<${token()}${token()}>` } });
  const names = ["a", "b", "c"];
  const forks: string[] = [];
  for (const name of names) await log.thread(name).put("k0", { n: 0, list: [] }, meta());
  for (let step = 0; step < steps; step++) {
    const thread = log.thread(pick([...names, ...forks]));
    const key = `k${Math.floor(random() * 4)}`;
    const chance = random();
    const id = `id${step}`;
    if (chance < 0.3) {
      await thread.put(key, { n: step, list: [token()] }, { id, ...meta() });
    } else if (chance < 0.4) {
      const text = Array.from({ length: 60 + Math.floor(random() * 700) }, token).join(" ");
      await thread.put(key, { n: step, list: [], text }, { id, ...meta() });
    } else if (chance < 0.6) {
      const initial = { n: 0, list: [] as string[] };
      await thread.update(key, (draft) => void draft.list.push(token()), { id, initial, ...meta() });
    } else if (chance < 0.75) {
      await thread.append("said", { text: token().repeat(1 + Math.floor(random() * 30)) }, { id, ...meta() });
    } else if (chance < 0.8) {
      await thread.delete(key, { id, ...meta() });
    } else if (chance < 0.85) {
      const { version } = await thread.head();
      await thread.restore(Math.max(1, version - Math.floor(random() * 4)), { id, ...meta() }).catch(() => {});
    } else if (chance < 0.9) {
      const name = `f${step}`;
      await thread.fork(name, { id, ...meta() });
      forks.push(name);
    } else if (chance < 0.95) {
      await log.batch((batch) => {
        for (const name of names) batch.thread(name).append("batched", token(), { id, ...meta() });
      });
    } else if (chance < 0.97) {
      await log.thread("gone").put("k", { secret: token() }, meta());
    } else {
      await log.thread("gone").erase(meta());
    }
  }
}

/** What each event builds on, and where the names are. */
function tablesOf(path: string, events: readonly Event[]): { bases: Map<number, number[]>; names: number[] } {
  let names: number[];
  const bases = new Map<number, number[]>();
  const connection = rawConnection(path);
  try {
    for (const row of connection.prepare("SELECT position, packing, base, form, state FROM events").all()) {
      const { position, packing, base, form, state } = row as Record<string, number | null>;
      const found = Math.abs(packing ?? 0) > 0 ? [Math.abs(packing!)] : [];
      if (form === 1 && state === null && base !== null) found.push(base!);
      bases.set(position!, found);
    }
    const roots = connection.prepare("SELECT rootpage FROM sqlite_schema WHERE name IN (?, ?)");
    names = roots.all("threads", "sqlite_autoindex_threads_1").map(({ rootpage }) => (rootpage as number) - 1);
  } finally {
    connection.close();
  }
  for (const event of events) {
    // Where a fork began may be lost with all that says so.
    const fork = events.find(({ thread, type }) => type === "fork" && thread === event.thread);
    if (fork !== undefined && fork !== event) bases.get(event.position)!.push(fork.position);
    if (event.type !== "fork") continue;
    const { parent } = event.value as { parent: string };
    const last = events.findLast(({ thread, position }) => thread === parent && position < event.position);
    if (last !== undefined) bases.get(event.position)!.push(last.position);
  }
  return { bases, names };
}

/** The pages of a file that hold an event's row; a large one has others, too. */
export function pagesOf(bytes: Buffer, mark: string): number[] {
  const pages: number[] = [];
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + 1)) {
    pages.push(Math.floor(at / PAGE), Math.floor((at + mark.length) / PAGE));
  }
  return [...new Set(pages)];
}
