/**
 * A disk as POSIX promises it, no better: what was not synced may be there or not, in any order, in part; a name that
 * was not synced may be the old one or the new one. From it come the states that a power cut allows.
 */
import { type Action, FOLDER, SUFFIXES } from "./records.ts";

/** What a power cut may leave: the content of the database, its WAL and its journal, undefined where there is none. */
export type Image = readonly (Uint8Array | undefined)[];

/** How the disk behaves at the cut. */
export type Fate = "nothing" | "everything" | "prefix" | "subset" | "grown";

/** The fates that chance decides. */
export const CHANCES: readonly Fate[] = ["prefix", "subset", "grown"];

/** Disks write these whole. */
const SECTOR = 512;

interface Pending {
  readonly order: number;
  readonly offset: number;
  /** Undefined for a truncation to `offset`. */
  readonly data: Uint8Array | undefined;
}

class Content {
  #bytes: Uint8Array;
  size: number;

  constructor(bytes: Uint8Array = new Uint8Array(1 << 16), size = 0) {
    this.#bytes = bytes;
    this.size = size;
  }

  copy(room: number): Content {
    const bytes = new Uint8Array(Math.max(this.size, room));
    bytes.set(this.#bytes.subarray(0, this.size));
    return new Content(bytes, this.size);
  }

  write(offset: number, data: Uint8Array): void {
    this.grow(offset + data.length);
    this.#bytes.set(data, offset);
  }

  grow(size: number): void {
    if (size > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(size, this.#bytes.length * 2));
      larger.set(this.#bytes.subarray(0, this.size));
      this.#bytes = larger;
    }
    this.size = Math.max(this.size, size);
  }

  resize(size: number): void {
    if (size < this.size) this.#bytes.fill(0, size, this.size);
    this.grow(size);
    this.size = size;
  }

  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.size);
  }
}

class Inode {
  readonly #durable = new Content();
  #pending: Pending[] = [];

  add(pending: Pending): void {
    this.#pending.push(pending);
  }

  /** What came before the sync began is durable; what came while it ran may not be. */
  sync(before: number): void {
    for (const pending of this.#pending) if (pending.order < before) apply(this.#durable, pending);
    this.#pending = this.#pending.filter(({ order }) => order >= before);
  }

  crash(fate: Fate, random: () => number): Uint8Array {
    if (fate === "nothing" || this.#pending.length === 0) return this.#durable.bytes;
    const room = Math.max(...this.#pending.map(({ offset, data }) => offset + (data?.length ?? 0)));
    const content = this.#durable.copy(room);
    if (fate === "everything") {
      for (const pending of this.#pending) apply(content, pending);
    } else if (fate === "prefix") {
      const kept = Math.floor(random() * (this.#pending.length + 1));
      for (const pending of this.#pending.slice(0, kept)) apply(content, pending);
      const torn = this.#pending[kept];
      if (torn?.data !== undefined) content.write(torn.offset, cut(torn.data, random()));
    } else {
      for (const pending of this.#pending) survive(content, pending, fate === "grown", random);
    }
    return content.bytes;
  }
}

function cut(data: Uint8Array, share: number): Uint8Array {
  return data.subarray(0, Math.floor(share * data.length));
}

function apply(content: Content, { offset, data }: Pending): void {
  if (data === undefined) content.resize(offset);
  else content.write(offset, data);
}

/** Keeps a write, drops it, or keeps some of its sectors; a file that has grown may hold zeros instead. */
function survive(content: Content, pending: Pending, grows: boolean, random: () => number): void {
  const { offset, data } = pending;
  const chance = random();
  if (chance < 0.4) return apply(content, pending);
  if (data === undefined) return;
  const end = offset + data.length;
  if (chance < 0.7) {
    for (let from = offset; from < end;) {
      const to = Math.min(end, (Math.floor(from / SECTOR) + 1) * SECTOR);
      if (random() < 0.5) content.write(from, data.subarray(from - offset, to - offset));
      from = to;
    }
  }
  if (grows) content.grow(end);
}

/** The disk under one database. */
export class Disk {
  #order = 0;
  /** What each name stands for, and each thing that it stood for since its folder was synced, oldest first. */
  #names: { at: number; inode: Inode | undefined }[][] = SUFFIXES.map(() => [{ at: 0, inode: undefined }]);
  readonly #marks = new Map<number, { order: number; inode: Inode | undefined }>();

  /** Follows a record. */
  follow(action: Action): void {
    this.#order++;
    switch (action.what) {
      case "open":
        if (this.#current(action.file) === undefined) this.#link(action.file, new Inode());
        return;
      case "unlink":
        return this.#link(action.file, undefined);
      case "write":
        return this.#inode(action.file).add({ order: this.#order, offset: action.offset, data: action.data });
      case "truncate":
        return this.#inode(action.file).add({ order: this.#order, offset: action.size, data: undefined });
      case "sync_start":
        this.#marks.set(action.ticket, { order: this.#order, inode: this.#names[action.file]?.at(-1)?.inode });
        return;
      case "sync_end": {
        const { order, inode } = this.#marks.get(action.ticket)!;
        if (action.file === FOLDER) this.#syncNames(order);
        else inode?.sync(order);
      }
    }
  }

  /** One of the states that a power cut allows now. */
  crash(fate: Fate, random: () => number): Image {
    return this.#names.map((links) => {
      const choice = fate === "nothing" ? 0 : fate === "everything" ? links.length - 1 : random() * links.length;
      return links[Math.floor(choice)]!.inode?.crash(fate, random);
    });
  }

  #current(file: number): Inode | undefined {
    return this.#names[file]!.at(-1)!.inode;
  }

  #inode(file: number): Inode {
    const inode = this.#current(file);
    if (inode === undefined) throw new Error(`a write to ${SUFFIXES[file]}, which does not exist`);
    return inode;
  }

  #link(file: number, inode: Inode | undefined): void {
    this.#names[file]!.push({ at: this.#order, inode });
  }

  #syncNames(before: number): void {
    this.#names = this.#names.map((links) => {
      const newest = links.findLastIndex(({ at }) => at < before);
      return links.slice(Math.max(newest, 0));
    });
  }
}
