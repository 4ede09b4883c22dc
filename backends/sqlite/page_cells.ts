/**
 * The cells of a page of SQLite's, and the records in them (https://sqlite.org/fileformat2.html). The page may be
 * damaged in any way: what can't be read is left out, and nothing is allocated because a length says so.
 *
 * @module
 */

import { PAGE_BYTES } from "./page_images.ts";

/** A column of a record. */
export type Cell = null | number | string | Uint8Array;

/** Where a cell is: what is needed to read it again. */
export interface CellPlace {
  readonly page: number;
  /** Which image of the page. */
  readonly image: number;
  readonly offset: number;
}

/** A record, as a leaf of a table or an index has it. */
export interface CellRecord {
  readonly offset: number;
  /** In a table only. */
  readonly rowid: number | undefined;
  readonly columns: readonly Cell[];
}

/** Reads a page by its number: for what does not fit into its cell. */
export type ReadPage = (page: number) => Uint8Array | undefined;

const TABLE_LEAF = 0x0d;
const INDEX_LEAF = 0x0a;
const INDEX_INTERIOR = 0x02;
const TABLE_INTERIOR = 0x05;
/** Page 1 begins with the file's header. */
const FILE_HEADER = 100;
const MOST_COLUMNS = 64;

const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** All records of a page that can be read. */
export function* recordsOf(page: number, image: Uint8Array, maxBytes: number, read: ReadPage): Generator<CellRecord> {
  const start = page === 1 ? FILE_HEADER : 0;
  const kind = image[start]!;
  if (kind === TABLE_INTERIOR) return;
  const isKnown = kind === TABLE_LEAF || kind === INDEX_LEAF || kind === INDEX_INTERIOR;
  // A damaged kind is no reason to give up a page: whatever it is read as, the hash chain decides.
  for (const as of isKnown ? [kind] : [TABLE_LEAF, INDEX_LEAF]) {
    const isInterior = as === INDEX_INTERIOR;
    const pointers = start + (isInterior ? 12 : 8);
    const count = Math.min(image[start + 3]! * 256 + image[start + 4]!, (PAGE_BYTES - pointers) >> 1);
    for (let i = 0; i < count; i++) {
      const offset = image[pointers + 2 * i]! * 256 + image[pointers + 2 * i + 1]!;
      if (offset < pointers || offset >= PAGE_BYTES) continue;
      const record = recordAt(image, offset, as === TABLE_LEAF, isInterior, maxBytes, read);
      if (record !== undefined) yield record;
    }
  }
}

/** The row of a table at a place of a page; undefined where there is none. */
export function rowAt(image: Uint8Array, offset: number, maxBytes: number, read: ReadPage): CellRecord | undefined {
  return recordAt(image, offset, true, false, maxBytes, read);
}

function recordAt(
  image: Uint8Array,
  offset: number,
  isTable: boolean,
  isInterior: boolean,
  maxBytes: number,
  read: ReadPage,
): CellRecord | undefined {
  const input = new Input(image, isInterior ? offset + 4 : offset);
  const length = input.varint();
  const rowid = isTable ? input.varint() : undefined;
  if (!(length > 0 && length <= maxBytes) || (rowid !== undefined && !Number.isSafeInteger(rowid))) return undefined;
  const payload = payloadOf(image, input.at, length, isTable, read);
  const columns = payload && columnsOf(payload);
  return columns && { offset, rowid, columns };
}

/** Whatever of a payload does not fit into the page is in a chain of others. */
function payloadOf(image: Uint8Array, at: number, length: number, isTable: boolean, read: ReadPage) {
  const most = isTable ? PAGE_BYTES - 35 : Math.floor((PAGE_BYTES - 12) * 64 / 255) - 23;
  if (length <= most) return at + length <= PAGE_BYTES ? image.subarray(at, at + length) : undefined;
  const least = Math.floor((PAGE_BYTES - 12) * 32 / 255) - 23;
  const rest = least + (length - least) % (PAGE_BYTES - 4);
  const local = rest <= most ? rest : least;
  if (at + local + 4 > PAGE_BYTES) return undefined;
  const pieces = [image.subarray(at, at + local)];
  let next = word(image, at + local);
  const seen = new Set<number>();
  for (let left = length - local; left > 0;) {
    const page = next > 1 && !seen.has(next) ? read(next) : undefined;
    if (page === undefined) return undefined;
    seen.add(next);
    const piece = page.subarray(4, 4 + Math.min(left, PAGE_BYTES - 4));
    pieces.push(piece);
    left -= piece.length;
    next = word(page, 0);
  }
  const payload = new Uint8Array(length);
  let to = 0;
  for (const piece of pieces) {
    payload.set(piece, to);
    to += piece.length;
  }
  return payload;
}

function columnsOf(payload: Uint8Array): Cell[] | undefined {
  const header = new Input(payload, 0);
  const size = header.varint();
  if (!(size >= 1 && size <= payload.length)) return undefined;
  const columns: Cell[] = [];
  let at = size;
  while (header.at < size) {
    const type = header.varint();
    const width = widthOf(type);
    if (width === undefined || at + width > payload.length || columns.length === MOST_COLUMNS) return undefined;
    const cell = cellOf(type, payload.subarray(at, at + width));
    if (cell === undefined) return undefined;
    columns.push(cell);
    at += width;
  }
  return at === payload.length && header.at === size ? columns : undefined;
}

function widthOf(type: number): number | undefined {
  if (type >= 12) return Math.floor((type - 12) / 2);
  return [0, 1, 2, 3, 4, 6, 8, 8, 0, 0][type];
}

function cellOf(type: number, bytes: Uint8Array): Cell | undefined {
  if (type === 0) return null;
  if (type >= 12 && type % 2 === 0) return bytes;
  if (type === 8 || type === 9) return type - 8;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (type === 7) return view.getFloat64(0);
  if (type >= 13) {
    try {
      return text.decode(bytes);
    } catch {
      return undefined;
    }
  }
  let number = view.getInt8(0);
  for (let i = 1; i < bytes.length; i++) number = number * 256 + bytes[i]!;
  return number;
}

function word(bytes: Uint8Array, at: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(at);
}

class Input {
  readonly #bytes: Uint8Array;
  at: number;

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes;
    this.at = at;
  }

  /** Big-endian, seven bits a byte, eight in the ninth; NaN where the bytes end. */
  varint(): number {
    let value = 0;
    for (let i = 0; i < 9; i++) {
      const byte = this.#bytes[this.at++];
      if (byte === undefined) return NaN;
      if (i === 8) return value * 256 + byte;
      value = value * 128 + (byte & 0x7f);
      if (byte < 0x80) return value;
    }
    return value;
  }
}
