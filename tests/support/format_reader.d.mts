// deno-lint-ignore-file no-explicit-any -- the reader shares no types with the library, either
/** Reads a log file. */
export function readLogFile(path: string): LogFile;
/** A log, as it is in its file. */
export class LogFile {
  [member: string]: any;
}
/** The bytes that a delta makes of its base. */
export function applyDelta(base: Uint8Array, delta: Uint8Array): Uint8Array;
/** The value of its MessagePack. */
export function decode(bytes: Uint8Array): unknown;
