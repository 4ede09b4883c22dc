/**
 * Cells of rows, checked: SQLite keeps any type in any column, and a damaged page may hold anything.
 *
 * @module
 */

import { ThreadlogError } from "../../log/errors.ts";
import type { Row, SqlValue } from "./driver.ts";

const utf8 = new TextEncoder();
const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A whole number. Of a row that must be there. */
export function integer(row: Row | undefined, column: string): number {
  if (row === undefined) throw corrupt("A row of the file's own notes is missing", "table meta");
  const value = row[column];
  if (typeof value !== "number" || !Number.isSafeInteger(value)) throw corruptCell(row, column, "a whole number");
  return value;
}

/** Bytes, or undefined for NULL. */
export function bytes(row: Row, column: string): Uint8Array | undefined {
  const value: SqlValue | undefined = row[column];
  if (value === null) return undefined;
  if (!(value instanceof Uint8Array)) throw corruptCell(row, column, "bytes");
  return value;
}

/** A name, kept as UTF-8 bytes. */
export function decodeName(row: Row, column: string): string {
  const value = bytes(row, column);
  try {
    return text.decode(value);
  } catch {
    throw corruptCell(row, column, "UTF-8");
  }
}

function corruptCell(row: Row, column: string, wanted: string): ThreadlogError {
  const place = typeof row.position === "number" ? `position ${row.position}` : `column ${column}`;
  return corrupt(`The column ${column} holds something other than ${wanted}`, place);
}

/** A key as a cell. A zero byte behind it: some drivers have bound an empty BLOB as NULL, and it keeps the order. */
export function keyBlob(key: string): Uint8Array {
  return utf8.encode(key + "\0");
}

/** The key of a cell. */
export function keyOf(blob: Uint8Array): string {
  return text.decode(blob.subarray(0, -1));
}

/** Behind everything that starts with these bytes: no UTF-8 holds 0xff. */
export function behind(prefix: string): Uint8Array {
  const bytes = utf8.encode(prefix);
  const end = new Uint8Array(bytes.length + 1);
  end.set(bytes);
  end[bytes.length] = 0xff;
  return end;
}

/** The file does not hold what the library wrote. */
export function corrupt(what: string, place: string): ThreadlogError {
  return new ThreadlogError("corrupt", what, {
    place,
    remedy: "Run verify() for the full extent, and restore from a backup.",
  });
}
