/**
 * The recorder's file: what the writer is asked to do, what it noted, and what it did to its disk, in one order.
 */
import { Buffer } from "node:buffer";
import type { Event } from "../../mod.ts";
import type { Plan } from "./plan.ts";

/** What the writer is asked to do. */
export interface Task {
  readonly path: string;
  readonly record: string;
  readonly plan: Plan;
  readonly durability: "full" | "normal";
  readonly syncMode?: "inline" | "async" | undefined;
  readonly duePages?: number | undefined;
  /** The number of the first step. */
  readonly first: number;
  readonly steps: number;
  /** How often the log is opened and closed on the way. */
  readonly sessions: number;
  /** How many append at once. */
  readonly lanes: number;
  /** Whether somebody subscribes. */
  readonly watch: boolean;
  /** A file that it removes when it has been refused some appends: then there is space again on its disk. */
  readonly ballast?: string | undefined;
  /** What it does wrong, on purpose. */
  readonly mutant?: "late" | "eager" | "split" | undefined;
}

/** What the writer says. */
export type Note =
  | { readonly kind: "tried"; readonly id: string }
  | { readonly kind: "acknowledged"; readonly id: string; readonly events?: readonly Event[] }
  | { readonly kind: "seen"; readonly position: number }
  /** What was there when a log was opened after a kill: some of it may never have been acknowledged. */
  | { readonly kind: "found"; readonly events: readonly Event[] }
  | { readonly kind: "refused"; readonly id: string; readonly code: string; readonly message: string }
  | { readonly kind: "ended" };

/** The files that are watched, by their numbers in the record, as what is behind the database's name. */
export const SUFFIXES = ["", "-wal", "-journal"] as const;
/** The number of the folder. */
export const FOLDER = 3;

/** Something that happened to the disk, or was said. */
export type Action =
  | { readonly what: "open" | "unlink"; readonly file: number }
  | { readonly what: "write"; readonly file: number; readonly offset: number; readonly data: Uint8Array }
  | { readonly what: "truncate"; readonly file: number; readonly size: number }
  | { readonly what: "sync_start" | "sync_end"; readonly file: number; readonly ticket: number }
  | { readonly what: "note"; readonly note: Note };

const HEAD_BYTES = 16;
const NOTE = 7;

/** A note as it lies in the file. */
export function encodeNote(note: Note): Uint8Array {
  const text = Buffer.from(JSON.stringify(note));
  const bytes = Buffer.alloc(HEAD_BYTES + text.length);
  bytes[0] = NOTE;
  bytes.writeUInt32LE(text.length, 4);
  text.copy(bytes, HEAD_BYTES);
  return bytes;
}

/** Reads the file. A killed writer may have left the last record in part; it is left out. */
export function decodeRecords(bytes: Uint8Array): Action[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const actions: Action[] = [];
  for (let at = 0; at + HEAD_BYTES <= bytes.length;) {
    const length = view.getUint32(at + 4, true);
    const end = at + HEAD_BYTES + length;
    if (end > bytes.length) break;
    const number = Number(view.getBigInt64(at + 8, true));
    actions.push(decodeAction(bytes[at]!, bytes[at + 1]!, number, bytes.subarray(at + HEAD_BYTES, end)));
    at = end;
  }
  return actions;
}

function decodeAction(what: number, file: number, number: number, data: Uint8Array): Action {
  switch (what) {
    case 1:
      return { what: "open", file };
    case 2:
      return { what: "write", file, offset: number, data };
    case 3:
      return { what: "truncate", file, size: number };
    case 4:
      return { what: "sync_start", file, ticket: number };
    case 5:
      return { what: "sync_end", file, ticket: number };
    case 6:
      return { what: "unlink", file };
    case NOTE:
      return { what: "note", note: JSON.parse(Buffer.from(data).toString()) };
    default:
      throw new Error(`no such record: ${what}`);
  }
}
