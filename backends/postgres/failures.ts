/**
 * What may go wrong with a server, and what it means for the call: nothing of it was kept, or it can't be told.
 *
 * @module
 */

import { OutcomeUnknownError, ThreadlogError } from "../../log/errors.ts";
import { showPath } from "../../log/ids.ts";
import { Raised } from "./lineage_sql.ts";

/** The server did not answer in time. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";

  constructor(ms: number) {
    super(`No answer within ${ms} ms`);
  }
}

/** The driver's or the system's code, or the server's SQLSTATE. */
export function codeOf(error: unknown): string | undefined {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return typeof code === "string" ? code : undefined;
}

/** No connection was made: whatever was to be sent was not. */
const NOT_CONNECTED: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ENOENT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "CONNECT_TIMEOUT",
  "CONNECTION_ENDED",
  "57P03", // cannot_connect_now
  "53300", // too_many_connections
]);

/** The connection ended while a call was under way. */
const CUT: ReadonlySet<string> = new Set([
  "CONNECTION_CLOSED",
  "CONNECTION_DESTROYED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "ECONNABORTED",
  "57P01", // admin_shutdown, pg_terminate_backend
  "57P02", // crash_shutdown
  "40003", // statement_completion_unknown
]);

/** What the server refuses as a standby. */
const READ_ONLY_TRANSACTION = "25006";

/** Whether the connection was lost in the middle of a call. */
export function isLost(error: unknown): boolean {
  const code = codeOf(error);
  return error instanceof NoAnswer || (code !== undefined && isCut(code));
}

/**
 * Whether the connections must be made anew. One to a server that is silent, or has become a standby, stays so; and the
 * driver (3.4.9) would answer the next call with the last words of the connection that was ended.
 */
export function isUseless(error: unknown): boolean {
  return isLost(error) || codeOf(error) === READ_ONLY_TRANSACTION;
}

/** Whether a server that is asked what it is may answer later. */
export function isUnreachable(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && (NOT_CONNECTED.has(code) || code === READ_ONLY_TRANSACTION || isCut(code));
}

/** Whether nothing was carried out, and another server may do it. */
export function isElsewhere(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && (NOT_CONNECTED.has(code) || code === READ_ONLY_TRANSACTION);
}

/** Whether the connections were being closed, so that the call was never sent. */
export function isUnsent(error: unknown): boolean {
  return codeOf(error) === "CONNECTION_ENDED";
}

function isCut(code: string): boolean {
  return CUT.has(code) || code.startsWith("08");
}

/** The library's error for one of a call that writes. */
export function writeFailure(error: unknown, doing: string, place: string): unknown {
  // Sent, perhaps carried out, but never answered.
  return isLost(error) ? new OutcomeUnknownError([], error) : failure(error, doing, place);
}

/** The library's error where nothing was to be kept, or nothing was. */
export function failure(error: unknown, doing: string, place: string): unknown {
  if (error instanceof ThreadlogError) return error;
  const code = codeOf(error);
  if (code === undefined && !(error instanceof NoAnswer)) return error; // a defect, not the server
  const make = (kind: ThreadlogError["code"], what: string, remedy: string) =>
    new ThreadlogError(kind, what, { place, remedy, cause: error });
  if (code === undefined || isCut(code)) {
    return make("storage", `The connection was lost while ${doing}`, "Try again; it is made anew.");
  }
  if (NOT_CONNECTED.has(code)) {
    return make("storage", `The server can't be reached for ${doing}`, "Check that it runs, and try again.");
  }
  switch (code) {
    case "55P03": // lock_not_available
    case "57014": // query_canceled: statement_timeout
    case "40P01": // deadlock_detected
    case "40001": // serialization_failure
      return make(
        "busy",
        `Another transaction held the log for too long while ${doing}`,
        "Try again, or raise `busyTimeoutMs`; look for idle transactions in pg_stat_activity, and at statement_timeout.",
      );
    case READ_ONLY_TRANSACTION:
      return make(
        "read_only",
        "The server is a standby, or read-only",
        "Connect to the primary, or open { readOnly }.",
      );
    case "53100": // disk_full
      return make("storage", `The server's disk is full while ${doing}`, "Free some space and try again.");
    case "42501": // insufficient_privilege
      return make("storage", `The user lacks a right for ${doing}`, "Grant it: the cause names it.");
    case "28P01": // invalid_password
    case "28000": // invalid_authorization_specification
      return make("storage", "The server refused the user", "Check the user and the password of the URL.");
    case "3D000": // invalid_catalog_name
      return make("not_found", "The database does not exist", "Create it, or name another in the URL.");
    case "XX001": // data_corrupted
    case "XX002": // index_corrupted
      return make("corrupt", `The server's files are damaged, noticed while ${doing}`, "Restore from a backup.");
  }
  if (code.startsWith("42")) {
    return make(
      "not_a_log",
      `The schema lacks what a log needs, noticed while ${doing}`,
      "Name a schema that Threadlog made, or one that does not exist yet.",
    );
  }
  return make("storage", `The server failed while ${doing}`, "See the cause; nothing of this call was kept.");
}

/** What the functions of this backend raise of a thread; anything else as it is. */
export function threadFailure(error: unknown, path: string, point: string): unknown {
  const detail = (error as { readonly detail?: string } | null)?.detail;
  const make = (kind: ThreadlogError["code"], what: string, place: string, remedy: string) =>
    new ThreadlogError(kind, what, { place, remedy });
  const thread = `Thread ${showPath(path)}`;
  switch (codeOf(error)) {
    case Raised.notFound:
      return make(
        "not_found",
        `${thread} has no ${point}`,
        `thread ${showPath(path)}`,
        `Its head is version ${detail}.`,
      );
    case Raised.erased:
      return make(
        "erased",
        `${thread} was erased through version ${detail}`,
        point,
        "What was erased can't be read again; later versions can.",
      );
    case Raised.missing:
      return make(
        "corrupt",
        `${thread} lacks version ${detail}`,
        `version ${detail}`,
        "Run verify() for the full extent, and restore from a backup.",
      );
    case Raised.brokenChain:
      return make(
        "corrupt",
        `The event at position ${detail} builds on one that is not there`,
        `position ${detail}`,
        "Run verify() for the full extent, and restore from a backup.",
      );
  }
  return error;
}
