/**
 * Ways in which a file may be damaged, and which pages and frames are hit.
 */
import { Buffer } from "node:buffer";
import { PAGE, pagesOf, type Specimen } from "./specimen.ts";

/** A damaged copy of a log's files. */
export interface Damaged {
  readonly database: Buffer;
  readonly wal: Buffer;
  /** What was done, in words. */
  readonly what: string;
}

/** Where the frames of a WAL begin, and how long each is. */
export const WAL_HEADER = 32;
export const FRAME = 24 + PAGE;

/** A way to do damage. `random` decides where. */
export type Damage = (specimen: Specimen, random: () => number) => Damaged;

function below(random: () => number, limit: number): number {
  return Math.floor(random() * limit);
}

/** Flips bits, in some bytes of a stretch. */
export function flip(bytes: Buffer, from: number, to: number, times: number, random: () => number): void {
  for (let i = 0; i < times && to > from; i++) bytes[from + below(random, to - from)]! ^= 1 << below(random, 8);
}

function inDatabase(what: string, change: (bytes: Buffer, random: () => number) => Buffer | void): Damage {
  return ({ database, wal }, random) => {
    const bytes = Buffer.from(database);
    return { database: change(bytes, random) ?? bytes, wal, what };
  };
}

function inWal(what: string, change: (bytes: Buffer, random: () => number) => Buffer | void): Damage {
  return ({ database, wal }, random) => {
    const bytes = Buffer.from(wal);
    return { database, wal: change(bytes, random) ?? bytes, what };
  };
}

function fillPages(bytes: Buffer, count: number, random: () => number, content: () => number): void {
  for (let i = 0; i < count; i++) {
    const page = below(random, bytes.length / PAGE);
    for (let at = page * PAGE; at < (page + 1) * PAGE; at++) bytes[at] = content();
  }
}

/** Whether a page holds entries of an index, or of a table without row ids. */
function isIndex(bytes: Buffer, page: number): boolean {
  const kind = bytes[page * PAGE + (page === 0 ? 100 : 0)];
  return kind === 0x0a || kind === 0x02;
}

function pages(bytes: Buffer): number[] {
  return Array.from({ length: bytes.length / PAGE }, (_, page) => page);
}

/** Damage to the database. */
export const TO_DATABASE: readonly Damage[] = [
  inDatabase("one bit", (bytes, random) => flip(bytes, 0, bytes.length, 1, random)),
  inDatabase("some bits", (bytes, random) => flip(bytes, 0, bytes.length, 2 + below(random, 12), random)),
  inDatabase("many bits of one page", (bytes, random) => {
    const page = below(random, bytes.length / PAGE);
    flip(bytes, page * PAGE, (page + 1) * PAGE, 60, random);
  }),
  inDatabase("the beginning of some pages", (bytes, random) => {
    for (let i = 0; i < 4; i++) {
      const page = below(random, bytes.length / PAGE);
      flip(bytes, page * PAGE, page * PAGE + 12, 3, random);
    }
  }),
  inDatabase("pages of zeros", (bytes, random) => fillPages(bytes, 1 + below(random, 4), random, () => 0)),
  inDatabase("pages of noise", (bytes, random) => {
    fillPages(bytes, 1 + below(random, 4), random, () => below(random, 256));
  }),
  inDatabase("cut", (bytes, random) => bytes.subarray(0, below(random, bytes.length))),
  inDatabase("cut, to whole pages", (bytes, random) => bytes.subarray(0, PAGE * below(random, bytes.length / PAGE))),
  inDatabase("its header", (bytes, random) => flip(bytes, 0, 100, 10, random)),
  inDatabase("its first page, gone", (bytes) => void bytes.fill(0, 0, PAGE)),
  inDatabase("all indexes, gone", (bytes) => {
    for (const page of pages(bytes)) if (isIndex(bytes, page)) bytes.fill(0, page * PAGE, (page + 1) * PAGE);
  }),
  inDatabase("two pages swapped", (bytes, random) => {
    const [one, other] = [below(random, bytes.length / PAGE), below(random, bytes.length / PAGE)];
    const kept = Buffer.from(bytes.subarray(one * PAGE, (one + 1) * PAGE));
    bytes.copy(bytes, one * PAGE, other * PAGE, (other + 1) * PAGE);
    kept.copy(bytes, other * PAGE);
  }),
];

/** Damage to the WAL of a log that was not closed. */
export const TO_WAL: readonly Damage[] = [
  inWal("one bit of the WAL", (bytes, random) => flip(bytes, 0, bytes.length, 1, random)),
  inWal("some bits of the WAL", (bytes, random) => flip(bytes, 0, bytes.length, 2 + below(random, 12), random)),
  inWal("the WAL, cut", (bytes, random) => bytes.subarray(0, below(random, bytes.length))),
  inWal("the WAL's header", (bytes, random) => flip(bytes, 0, WAL_HEADER, 4, random)),
  inWal("the WAL's header, gone", (bytes) => void bytes.fill(0, 0, WAL_HEADER)),
  inWal("the WAL of noise", (bytes, random) => {
    for (let i = 0; i < bytes.length; i++) bytes[i] = below(random, 256);
  }),
  inWal("the headers of some frames", (bytes, random) => {
    for (let i = 0; i < 3; i++) {
      const at = WAL_HEADER + FRAME * below(random, (bytes.length - WAL_HEADER) / FRAME);
      flip(bytes, at, at + 24, 2, random);
    }
  }),
  inWal("noise behind the WAL", (bytes, random) => {
    return Buffer.concat([bytes, Buffer.from(Array.from({ length: 10_000 }, () => below(random, 256)))]);
  }),
];

function hits(good: Buffer, bad: Buffer, start: number, size: number): Set<number> {
  const hit = new Set<number>();
  for (let index = 0; start + index * size < good.length; index++) {
    const from = start + index * size;
    const to = Math.min(from + size, good.length);
    if (bad.length < to || good.compare(bad, from, to, from, to) !== 0) hit.add(index);
  }
  return hit;
}

/** The events that may be lost, each with what builds on it; the others must not be. */
export function atRisk(specimen: Specimen, { database, wal }: Damaged): Set<number> {
  const pages = hits(specimen.database, database, 0, PAGE);
  const frames = hits(specimen.wal, wal, WAL_HEADER, FRAME);
  const risky = new Set<number>();
  const isHit = (hit: ReadonlySet<number>, found: readonly number[]) => found.some((index) => hit.has(index));
  const namesGone = isNameHit(specimen, pages, frames);
  for (const { position } of specimen.events) {
    const mark = specimen.marks.get(position);
    const risk = mark === undefined || namesGone || isHit(pages, pagesOf(specimen.database, mark)) ||
      isHit(frames, framesOf(specimen.wal, mark)) || (specimen.large.has(position) && pages.size + frames.size > 0);
    if (risk || specimen.bases.get(position)!.some((base) => risky.has(base))) risky.add(position);
  }
  return risky;
}

/** Whether both copies of the threads' names are hit, in the database or in the WAL. */
function isNameHit(specimen: Specimen, pages: ReadonlySet<number>, frames: ReadonlySet<number>): boolean {
  const isPageHit = (page: number) => {
    if (pages.has(page)) return true;
    return [...frames].some((frame) => specimen.wal.readUInt32BE(WAL_HEADER + frame * FRAME) === page + 1);
  };
  return specimen.names.every(isPageHit);
}

function framesOf(wal: Buffer, mark: string): number[] {
  const frames: number[] = [];
  for (let at = wal.indexOf(mark); at >= 0; at = wal.indexOf(mark, at + 1)) {
    for (const end of [at, at + mark.length]) frames.push(Math.floor((end - WAL_HEADER) / FRAME));
  }
  return frames;
}
