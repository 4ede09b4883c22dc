/**
 * The pages of a database file and of its write-ahead log, read without SQLite: whatever is damaged, the other pages can
 * still be had. Nothing is ever written, and no lock is taken.
 *
 * @module
 */

import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";

/** Every log has it. Of messages of two kilobytes, a page of 4096 would hold one and be half empty. */
export const PAGE_BYTES = 8192;

const WAL_HEADER = 32;
const FRAME_HEADER = 24;
const FRAME = FRAME_HEADER + PAGE_BYTES;
/** The first word of a WAL; the lowest bit tells the byte order of its checksums. */
const WAL_MAGIC = 0x377f0682;

/** How many pages are kept in memory. */
const CACHE_PAGES = 1024;

/** A page as a frame of the WAL has it. */
interface Frame {
  readonly offset: number;
  /** Whether its checksum holds. */
  readonly isWhole: boolean;
}

/** A file that is only read. */
class ReadFile {
  readonly size: number;
  readonly #descriptor: number;

  constructor(path: string) {
    this.#descriptor = openSync(path, "r");
    this.size = fstatSync(this.#descriptor).size;
  }

  /** Bytes from a place on; zeros behind the end. */
  read(offset: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length;) {
      const count = readSync(this.#descriptor, bytes, done, length - done, offset + done);
      if (count === 0) break;
      done += count;
    }
    return bytes;
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}

/** Every page, as often as there is a reason to look at it. */
export class PageImages {
  readonly #database: ReadFile;
  readonly #wal: ReadFile | undefined;
  /** By page number, oldest first. */
  readonly #frames = new Map<number, Frame[]>();
  readonly #cache = new Map<number, Uint8Array[]>();

  /** Opens a database, and its WAL if there is one. */
  constructor(path: string) {
    this.#database = new ReadFile(path);
    try {
      this.#wal = existsSync(`${path}-wal`) ? new ReadFile(`${path}-wal`) : undefined;
      if (this.#wal !== undefined) this.#index(this.#wal);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** The numbers of all pages: those of the database, then those that only the WAL has. */
  *numbers(): Generator<number> {
    const inDatabase = Math.ceil(this.#database.size / PAGE_BYTES);
    for (let page = 1; page <= inDatabase; page++) yield page;
    for (const page of this.#frames.keys()) if (page > inDatabase) yield page;
  }

  /**
   * A page, the newest image first. Older ones follow only behind one that is damaged: they may hold what was erased
   * since.
   */
  images(page: number): readonly Uint8Array[] {
    let images = this.#cache.get(page);
    if (images !== undefined) return images;
    if (this.#cache.size >= CACHE_PAGES) this.#cache.clear();
    this.#cache.set(page, images = this.#read(page));
    return images;
  }

  #read(page: number): Uint8Array[] {
    const images: Uint8Array[] = [];
    for (const { offset, isWhole } of (this.#frames.get(page) ?? []).toReversed()) {
      images.push(this.#wal!.read(offset, PAGE_BYTES));
      if (isWhole) return images;
    }
    if ((page - 1) * PAGE_BYTES < this.#database.size) {
      images.push(this.#database.read((page - 1) * PAGE_BYTES, PAGE_BYTES));
    }
    return images;
  }

  /** The newest image of a page that is not known to be damaged. */
  image(page: number): Uint8Array | undefined {
    return this.images(page).at(-1);
  }

  /** Closes the files. */
  close(): void {
    this.#database.close();
    this.#wal?.close();
  }

  /**
   * Finds the committed frames. Behind a damaged one SQLite reads no further; but each frame's checksum goes on from the
   * one that the frame before it holds, so those behind it can be told to be whole all the same.
   */
  #index(wal: ReadFile): void {
    const total = Math.floor((wal.size - WAL_HEADER) / FRAME);
    if (total < 1) return;
    const header = view(wal.read(0, WAL_HEADER));
    const isBig = (header.getUint32(0) & 1) === 1;
    const isHeaderWhole = (header.getUint32(0) & ~1) === WAL_MAGIC &&
      holds(checksum([0, 0], header, 0, 24, isBig), header, 24);
    const salt = isHeaderWhole ? header.getBigUint64(16) : commonSalt(wal, total);
    let seed: readonly [number, number] = [header.getUint32(24), header.getUint32(28)];
    const found: { page: number; frame: Frame }[] = [];
    let afterCommit = 0;
    for (let i = 0; i < total; i++) {
      const offset = WAL_HEADER + i * FRAME;
      const frame = view(wal.read(offset, FRAME));
      const isOurs = frame.getBigUint64(8) === salt;
      const isWhole = isOurs && [isBig, !isBig].some((big) => {
        return holds(checksum(checksum(seed, frame, 0, 8, big), frame, FRAME_HEADER, FRAME, big), frame, 16);
      });
      found.push({ page: frame.getUint32(0), frame: { offset: offset + FRAME_HEADER, isWhole } });
      // What no commit follows was never acknowledged; what has another salt is left from before the WAL began anew.
      if (isOurs && frame.getUint32(4) > 0) afterCommit = found.length;
      seed = [frame.getUint32(16), frame.getUint32(20)];
    }
    const limit = Math.ceil(this.#database.size / PAGE_BYTES) + total;
    for (const { page, frame } of found.slice(0, afterCommit)) {
      // (Of a database that was cut, a whole frame may be far behind the end.)
      if (page < 1 || (page > limit && !frame.isWhole)) continue;
      const frames = this.#frames.get(page);
      if (frames === undefined) this.#frames.set(page, [frame]);
      else frames.push(frame);
    }
  }
}

function view(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function holds([first, second]: readonly [number, number], bytes: DataView, at: number): boolean {
  return bytes.getUint32(at) === first && bytes.getUint32(at + 4) === second;
}

/** SQLite's checksum of a WAL, gone on with. */
function checksum(
  [first, second]: readonly [number, number],
  bytes: DataView,
  from: number,
  to: number,
  isBig: boolean,
): readonly [number, number] {
  for (let at = from; at < to; at += 8) {
    first = (first + bytes.getUint32(at, !isBig) + second) >>> 0;
    second = (second + bytes.getUint32(at + 4, !isBig) + first) >>> 0;
  }
  return [first, second];
}

/** The salt that most frames have, for a WAL whose header is damaged. */
function commonSalt(wal: ReadFile, total: number): bigint {
  const counts = new Map<bigint, number>();
  let common = 0n;
  for (let i = 0; i < total; i++) {
    const salt = view(wal.read(WAL_HEADER + i * FRAME + 8, 8)).getBigUint64(0);
    counts.set(salt, (counts.get(salt) ?? 0) + 1);
    if (counts.get(salt)! > (counts.get(common) ?? 0)) common = salt;
  }
  return common;
}
