/**
 * Every error Threadlog raises on purpose: one base class, a literal `code` to switch on, the place where it went
 * wrong, and what to do about it.
 *
 * @module
 */

/** Why an operation was refused or failed. Switch on it; the text of a message may change between releases. */
export type ErrorCode =
  /** An argument has the wrong type or is out of range. Nothing was written. */
  | "invalid_argument"
  /** A thread id, label, key or event id is not one. Nothing was written. */
  | "invalid_id"
  /** A value can't be stored with its meaning intact. Nothing was written. */
  | "unencodable"
  /** Stored bytes are not what the codec wrote. Other events stay readable. */
  | "undecodable"
  /** A value, key or request exceeds a stated limit. Nothing was written. */
  | "too_large"
  /** An `expect` did not hold. Nothing was written. */
  | "conflict"
  /** An event id was used before in this thread, for something else. Nothing was written. */
  | "id_conflict"
  /** The thread, version, key or projection asked for does not exist. */
  | "not_found"
  /** What was asked for has been erased. */
  | "erased"
  /** Too many appends are waiting. Nothing was written. */
  | "queue_full"
  /** The log has been closed. Nothing was written. */
  | "closed"
  /** The log was opened read-only. Nothing was written. */
  | "read_only"
  /** Another process held the file for longer than the wait allowed. Nothing was written. */
  | "busy"
  /** The storage failed before anything was written. */
  | "storage"
  /** The storage failed at a point where the append may or may not have been kept. Retry with the same id. */
  | "outcome_unknown"
  /** An event or a page of the file is damaged. */
  | "corrupt"
  /** The file is not a Threadlog log. It was not changed. */
  | "not_a_log"
  /** The file was written by a newer release. It was not changed. */
  | "newer_format"
  /** The log was written with another codec. It was not changed. */
  | "codec_mismatch"
  /** The file lies on a network file system. It was not changed. */
  | "network_filesystem"
  /** The runtime lacks what is needed. */
  | "unsupported"
  /** An event's schema version has no upcaster, or an upcaster or projection threw. */
  | "schema";

/** What an error carries beside its text. */
export interface ErrorDetails {
  /** Where: a path into a value, a thread and version, a file. */
  readonly place?: string;
  /** What to do about it, as a sentence. */
  readonly remedy?: string;
  /** The error underneath, if any. */
  readonly cause?: unknown;
}

/**
 * The base of every error that Threadlog raises on purpose.
 *
 * @example
 * ```ts
 * import { openLog, ThreadlogError } from "threadlog";
 *
 * await using log = await openLog(":memory:");
 * try {
 *   await log.thread("a").put("key", () => {});
 * } catch (error) {
 *   if (error instanceof ThreadlogError && error.code === "unencodable") console.log(error.place); // "$"
 * }
 * ```
 */
export class ThreadlogError extends Error {
  /** The class name, for logs. */
  override readonly name: string = "ThreadlogError";
  /** Why, as a literal to switch on. */
  readonly code: ErrorCode;
  /** What went wrong: the message without its place and remedy. */
  readonly what: string;
  /** Where it went wrong, when there is a place to name. */
  readonly place: string | undefined;
  /** What to do about it. */
  readonly remedy: string | undefined;

  /** Builds the message from its three parts: what, where, and what to do. */
  constructor(code: ErrorCode, what: string, details: ErrorDetails = {}) {
    const place = details.place === undefined ? "" : ` (at ${details.place})`;
    const remedy = details.remedy === undefined ? "" : ` ${details.remedy}`;
    super(`${what}${place}.${remedy}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.what = what;
    this.place = details.place;
    this.remedy = details.remedy;
  }
}

/**
 * An `expect` did not hold: somebody else appended to the thread first. Nothing was written.
 *
 * @example
 * ```ts
 * import { ConflictError, openLog } from "threadlog";
 *
 * await using log = await openLog(":memory:");
 * const thread = log.thread("a");
 * await thread.put("k", 1);
 * try {
 *   await thread.put("k", 2, { expect: "new" });
 * } catch (error) {
 *   if (error instanceof ConflictError) console.log(error.expected, error.actual); // 0 1
 * }
 * ```
 */
export class ConflictError extends ThreadlogError {
  /** The class name, for logs. */
  override readonly name = "ConflictError";
  /** The version that the append named; 0 stands for "new". */
  readonly expected: number;
  /** The version that the thread has. */
  readonly actual: number;

  /** Names the thread and both versions. */
  constructor(thread: string, expected: number, actual: number) {
    const [what, remedy] = expected === 0
      ? [`Thread ${thread} exists already, at version ${actual}`, "Choose another id, or expect its version."]
      : [`Expected thread ${thread} at version ${expected}, found ${actual}`, "Read it again and decide anew."];
    super("conflict", what, { place: `thread ${thread}`, remedy: `${remedy} Nothing was written.` });
    this.expected = expected;
    this.actual = actual;
  }
}

/**
 * The storage failed where the append may or may not have been kept. Appending again with the same id is safe: it is
 * kept once either way.
 *
 * @example
 * ```ts
 * import { openLog, OutcomeUnknownError } from "threadlog";
 *
 * await using log = await openLog(":memory:");
 * const pay = () => log.thread("a").append("paid", { amount: 7 }, { id: "order-7" });
 * await pay().catch((error) => error instanceof OutcomeUnknownError ? pay() : Promise.reject(error));
 * ```
 */
export class OutcomeUnknownError extends ThreadlogError {
  /** The class name, for logs. */
  override readonly name = "OutcomeUnknownError";
  /** The ids of the events whose outcome is unknown, where the app gave them one. */
  readonly ids: readonly string[];

  /** Keeps the storage's own error as `cause`. */
  constructor(ids: readonly string[], cause: unknown) {
    super("outcome_unknown", "The storage failed while the append was being made durable", {
      remedy: ids.length > 0
        ? "Open the log again and retry with the same id; it will be kept once."
        : "Open the log again and read the thread's head before retrying; give appends an id to make retries safe.",
      cause,
    });
    this.ids = ids;
  }
}

/** Raised for a defect in Threadlog itself: an invariant that did not hold. */
export function assert(condition: unknown, invariant: string): asserts condition {
  if (!condition) throw new ThreadlogError("corrupt", `Broken invariant: ${invariant}`);
}

/** The one way to refuse an argument, so that every refusal reads alike. */
export function invalid(what: string, place: string, remedy: string, cause?: unknown): ThreadlogError {
  return new ThreadlogError("invalid_argument", what, { place, remedy, cause });
}

/** The one error of a log that is closed. */
export function closedError(): ThreadlogError {
  return new ThreadlogError("closed", "The log is closed", { place: "log", remedy: "Open it again." });
}

/** The refusal of a piece of another log that is not the next. */
export function notNextError(head: number, after: number): ThreadlogError {
  return new ThreadlogError("conflict", `The log ends at position ${head}, and the piece follows ${after}`, {
    place: `position ${head}`,
    remedy: "Nobody else may write to a log while it is being copied to; nothing was written.",
  });
}
