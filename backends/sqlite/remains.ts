/**
 * What is left of the tables of a damaged file, found by looking at every page: neither the schema, nor an index, nor a
 * page above another is needed. Nothing here is proven; whoever reads it holds it against the hash chains.
 *
 * @module
 */

import { type BuiltInType, isBuiltInType } from "../../log/event.ts";
import type { ThreadPath } from "../../log/ids.ts";
import type { Position, Version } from "../../log/position.ts";
import { Form } from "../../log/backend.ts";
import type { Base, PackedEvent } from "../embedded/event_store.ts";
import { type Cell, type CellPlace, type CellRecord, recordsOf, rowAt } from "./page_cells.ts";
import { PageImages } from "./page_images.ts";

/** An event as a row has it: of its thread, only the number. */
export interface EventRow extends Omit<PackedEvent, "path"> {
  readonly thread: number;
}

/** What a row of the table of threads says beside the path. */
export interface ThreadRow {
  readonly created: Position;
  readonly parent: { readonly id: number; readonly version: Version } | undefined;
  readonly erased: Version;
  readonly tombstone: Position;
}

/** Where an index has an event. */
export interface Place {
  readonly thread: number;
  readonly version: Version;
}

const TYPES: readonly BuiltInType[] = ["set", "patch", "delete", "fork", "restore", "erase"];
const LINK_BYTES = 32;
/** No payload takes more than a few times this beside the largest value: names, meta, the header of the row. */
const ROW_BYTES = 1 << 20;

const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The remains of one file. */
export class Remains {
  readonly #pages: PageImages;
  readonly #maxBytes: number;
  readonly #rows = new Map<Position, CellPlace[]>();
  /** The paths that a thread's number may stand for, the likeliest first. */
  readonly paths = new Map<number, ThreadPath[]>();
  readonly threads = new Map<number, ThreadRow>();
  readonly bases = new Map<Position, Base[]>();
  readonly places = new Map<Position, Place[]>();
  /** What the table meta holds. */
  readonly meta = new Map<string, Cell>();
  /** Whether the file begins as every SQLite database does. */
  readonly isDatabase: boolean;

  /** Reads every page of a file once. */
  constructor(path: string, maxValueBytes: number) {
    this.#pages = new PageImages(path);
    // A patch holds operations and a whole value.
    this.#maxBytes = 2 * maxValueBytes + ROW_BYTES;
    try {
      const first = this.#pages.image(1);
      this.isDatabase = first !== undefined && new TextDecoder("latin1").decode(first.subarray(0, 15)) === MAGIC;
      for (const page of this.#pages.numbers()) this.#look(page);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** The positions that have a row, in order. */
  positions(): Position[] {
    return [...this.#rows.keys()].sort((a, b) => a - b);
  }

  /** The rows of a position, the likeliest first. */
  *rows(position: Position): Generator<EventRow> {
    for (const { page, image, offset } of this.#rows.get(position) ?? []) {
      const bytes = this.#pages.images(page)[image]!;
      for (const read of this.#readers()) {
        const record = rowAt(bytes, offset, this.#maxBytes, read);
        const row = record && eventOf(record);
        if (row !== undefined) yield row;
      }
    }
  }

  /** Closes the file. */
  close(): void {
    this.#pages.close();
  }

  /** Of a page behind another: the image that is whole, or the newest, which may be damaged elsewhere. */
  #readers() {
    return [(page: number) => this.#pages.image(page), (page: number) => this.#pages.images(page)[0]];
  }

  #look(page: number): void {
    for (const [image, bytes] of this.#pages.images(page).entries()) {
      for (const record of recordsOf(page, bytes, this.#maxBytes, (page) => this.#pages.image(page))) {
        if (record.rowid === undefined) this.#entry(record.columns);
        else this.#row(record, { page, image, offset: record.offset });
      }
    }
  }

  #row({ rowid, columns }: CellRecord, place: CellPlace): void {
    if (rowid! < 1) return;
    if (columns.length === 16) {
      add(this.#rows, rowid!, place);
    } else if (columns.length === 8) {
      const [, path, created, parent, version, erased, tombstone] = columns;
      this.#path(rowid!, path!, true);
      if (!isCount(created) || !isCount(erased) || !isCount(tombstone)) return;
      const inherits = isCount(parent) && isCount(version) ? { id: parent, version } : undefined;
      if (!this.threads.has(rowid!)) this.threads.set(rowid!, { created, parent: inherits, erased, tombstone });
    }
  }

  #entry(columns: readonly Cell[]): void {
    const [first, second, third, fourth] = columns;
    if (columns.length === 2 && typeof first === "string") {
      if (!this.meta.has(first)) this.meta.set(first, second!);
    } else if (columns.length === 2 && isCount(second)) {
      this.#path(second, first!, false);
    } else if (columns.length === 3 && isCount(first) && isCount(second) && isCount(third)) {
      // An index of bases looks the same; what it says is no place of an event in its thread, and will not fit.
      add(this.places, third, { thread: first, version: second });
    } else if (columns.length === 4 && isCount(first) && isCount(second) && isCount(third) && isCount(fourth)) {
      add(this.bases, second, { thread: first, position: second, origin: { thread: third, position: fourth } });
    }
  }

  #path(id: number, cell: Cell, first: boolean): void {
    if (!(cell instanceof Uint8Array) || cell.at(-1) !== 0) return;
    const path = decode(cell) as ThreadPath | undefined;
    if (path === undefined || path.length === 0) return;
    const known = this.paths.get(id) ?? [];
    if (known.includes(path)) return;
    this.paths.set(id, first ? [path, ...known] : [...known, path]);
  }
}

const MAGIC = "SQLite format 3";

function add<K, V>(lists: Map<K, V[]>, key: K, value: V): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

function isCount(cell: Cell | undefined): cell is number {
  return typeof cell === "number" && Number.isSafeInteger(cell) && cell >= 0;
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return text.decode(bytes);
  } catch {
    return undefined;
  }
}

/** The event of a row; undefined where a column can't be what an append writes. */
function eventOf({ rowid, columns }: CellRecord): EventRow | undefined {
  const [, thread, version, time, latest, type, key, id, schema, form, base, packing, link, meta, value, state] =
    columns;
  const name = typeof type === "number" ? TYPES[type] : type instanceof Uint8Array ? decode(type) : undefined;
  const wrong = !isCount(thread) || !isCount(version) || version < 1 || !isCount(time) || !isCount(latest) ||
    name === undefined || name === "" || (typeof type !== "number" && isBuiltInType(name)) ||
    !(link instanceof Uint8Array) || link.length !== LINK_BYTES || !isName(key) || !isName(id) ||
    !(schema === null || isCount(schema)) || !(form === null || form === Form.patch) ||
    !(base === null || isCount(base)) || !(packing === null || Number.isSafeInteger(packing)) ||
    ![meta, value, state].every((cell) => cell === null || cell instanceof Uint8Array);
  if (wrong) return undefined;
  const names = [key, id].map((cell) => cell === null ? undefined : decode(cell as Uint8Array));
  if ((key !== null && names[0] === undefined) || (id !== null && names[1] === undefined)) return undefined;
  return {
    position: rowid!,
    thread,
    version,
    time,
    latest,
    type: name,
    key: names[0]?.slice(0, -1),
    id: names[1],
    schema: schema === null ? 1 : schema as number,
    form: form === null ? Form.whole : Form.patch,
    base: base === null ? undefined : base as number,
    link,
    meta: meta as Uint8Array | null ?? undefined,
    packed: {
      packing: packing === null ? undefined : packing as number,
      value: value as Uint8Array | null ?? undefined,
      state: state as Uint8Array | null ?? undefined,
    },
  };
}

/** Where there is a name, it has at least one byte; a key ends with a zero byte. */
function isName(cell: Cell | undefined): boolean {
  return cell === null || (cell instanceof Uint8Array && cell.length > 0);
}
