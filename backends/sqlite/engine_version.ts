/**
 * Which releases of SQLite can be trusted with what.
 *
 * @module
 */

import process from "node:process";

/** The first release without the WAL-reset bug (https://sqlite.org/wal.html#walresetbug). */
const SAFE_SQLITE = [3, 51, 3];

let warned = false;

/** Warns, once in a process, of an engine that has the bug. */
export function warnOfOldSqlite(engine: string): void {
  const found = /(\d+)\.(\d+)\.(\d+)/.exec(engine)?.slice(1).map(Number);
  if (warned || found === undefined || !isOlder(found, SAFE_SQLITE)) return;
  warned = true;
  process.emitWarning(
    `${engine} can lose a transaction when several processes checkpoint at once; use a runtime with SQLite 3.51.3 ` +
      "or later where more than one process writes a log.",
    { type: "ThreadlogWarning", code: "THREADLOG_OLD_SQLITE" },
  );
}

/** Whether one version number precedes another. */
export function isOlder(version: readonly number[], than: readonly number[]): boolean {
  for (let i = 0; i < than.length; i++) {
    const part = version[i] ?? 0;
    if (part !== than[i]) return part < than[i]!;
  }
  return false;
}
