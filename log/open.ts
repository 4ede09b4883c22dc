/**
 * Opening a log: from a path to a backend, and the layers on it.
 *
 * @module
 */

import type { SqliteOptions, SqliteTuning } from "../backends/sqlite/open_file.ts";
import { guarded, parseFlag, takeOptions } from "./arguments.ts";
import type { Backend } from "./backend.ts";
import { type Codec, codecId } from "./codec.ts";
import { Core } from "./core.ts";
import { invalid, ThreadlogError } from "./errors.ts";
import { Log } from "./log.ts";
import { msgpack } from "./msgpack.ts";
import { parsePath } from "./paths.ts";
import { Records } from "./records.ts";
import { type Upcaster, Upcasters } from "./upcaster.ts";

/** How to open a log. Everything has a default. */
export interface OpenOptions {
  /**
   * What an acknowledged append survives: `"full"` (the default) a power cut, `"normal"` the death of the process.
   */
  readonly durability?: "full" | "normal";
  /** Opens without ever writing; the file must exist. Default false. */
  readonly readOnly?: boolean;
  /** Turns values into bytes and back. Default: the strict MessagePack of this package. The file remembers which. */
  readonly codec?: Codec;
  /** How to read values of earlier schema versions. */
  readonly upcasters?: readonly Upcaster[];
  /** Memory for values and keys, in bytes. Default 64 MiB. */
  readonly cacheBytes?: number;
  /** The largest value, in encoded bytes. Default 64 MiB. */
  readonly maxValueBytes?: number;
  /** How many appends may wait, and how many bytes they may hold. Defaults 65,536 and 256 MiB. */
  readonly maxQueue?: number;
  /** See `maxQueue`. */
  readonly maxQueueBytes?: number;
  /** How long to wait for another process's transaction, in milliseconds. Default 5,000. */
  readonly busyTimeoutMs?: number;
  /** Opens a file even where it lies on a network file system, whose locks can't be trusted. Default false. */
  readonly allowNetworkFilesystem?: boolean;
  /** The SQLite to use. Default: the one that is native to the runtime. */
  readonly driver?: "bun:sqlite" | "node:sqlite";
  /** The schema that holds a log on PostgreSQL. Default `"threadlog"`. */
  readonly schema?: string;
  /** The clock, in milliseconds since 1970. Default `Date.now`. */
  readonly now?: () => number;
}

const OPTIONS = [
  "durability",
  "readOnly",
  "codec",
  "upcasters",
  "cacheBytes",
  "maxValueBytes",
  "maxQueue",
  "maxQueueBytes",
  "busyTimeoutMs",
  "allowNetworkFilesystem",
  "driver",
  "schema",
  "now",
] as const;
const MIB = 1 << 20;
/** The last moment that a Date can name. */
const MAX_TIME = 8.64e15;

/**
 * Opens a log, creating it where there is none: a file's path or `file:` URL, the URL of a PostgreSQL database (which
 * needs the package `postgres`), or `":memory:"` for one that ends with the process.
 *
 * @example
 * ```ts
 * import { openLog } from "threadlog";
 *
 * await using log = await openLog(":memory:");
 * await log.thread("support-42").put("plan", { step: 1, todo: ["look up the order"] });
 * ```
 */
export async function openLog(target: string | URL, options: OpenOptions = {}): Promise<Log> {
  return await openTuned(target, options);
}

/** The same, with what only tests may set. */
export async function openTuned(target: string | URL, options: OpenOptions, tuning?: SqliteTuning): Promise<Log> {
  const path = target === ":memory:" ? target : parsePath(target, "target");
  const checked = { ...parseOptions(options), tuning };
  const backend = await openBackend(path, checked);
  try {
    if (backend.codecId !== checked.codecId) {
      throw new ThreadlogError("codec_mismatch", `The log was written with the codec ${backend.codecId}`, {
        place: shown(path),
        remedy: `It was opened with ${checked.codecId}: pass the \`codec\` that it was written with.`,
      });
    }
    // A tombstone whose work was cut short by a crash.
    // Nobody can read what is left; that others use the file, or that the disk is full, must not keep it from opening.
    if (!backend.readOnly) await finishPurge(backend).catch(() => {});
    const { position } = await backend.head();
    const records = new Records(checked.codec, checked.upcasters, checked.maxValueBytes);
    return new Log(new Core(backend, records, position, checked));
  } catch (error) {
    await backend.close();
    throw error;
  }
}

async function finishPurge(backend: Backend): Promise<void> {
  if (!await backend.purge()) return;
  while (await backend.purge());
  await backend.scrub();
}

async function openBackend(
  target: string,
  options: ReturnType<typeof parseOptions> & { tuning: SqliteTuning | undefined },
): Promise<Backend> {
  if (target === ":memory:") {
    const { MemoryBackend } = await import("../backends/memory/memory_backend.ts");
    return new MemoryBackend(options);
  }
  if (/^postgres(ql)?:\/\//i.test(target)) {
    const { PostgresBackend } = await import("../backends/postgres/postgres_backend.ts");
    return await PostgresBackend.open(target, options);
  }
  if (isUrl(target)) {
    throw new ThreadlogError("unsupported", "Logs are kept in files or on PostgreSQL servers", {
      place: shown(target),
      remedy: 'Name a file, or a URL as in "postgres://user@host/database".',
    });
  }
  const { SqliteBackend } = await import("../backends/sqlite/sqlite_backend.ts");
  return await SqliteBackend.open(target, options);
}

function isUrl(target: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(target);
}

/** A target as an error may show it: a URL can hold a password. */
function shown(target: string): string {
  return isUrl(target) ? target.replace(/\/\/.*/, "//...") : target;
}

function parseOptions(options: OpenOptions) {
  options = takeOptions(options, OPTIONS);
  const { durability = "full", codec = msgpack, upcasters = [], now = Date.now, driver, schema = "threadlog" } =
    options;
  if (durability !== "full" && durability !== "normal") {
    throw invalid("Unknown durability", "options.durability", 'Pass "full" or "normal".');
  }
  const isCodec = () => typeof codec?.encode === "function" && typeof codec.decode === "function";
  if (!guarded("options.codec", isCodec)) {
    throw invalid("A codec has the functions `encode` and `decode`", "options.codec", "Pass such a module.");
  }
  if (!guarded("options.upcasters", () => Array.isArray(upcasters))) {
    throw invalid("`upcasters` must be a list", "options.upcasters", "Pass an array.");
  }
  if (typeof now !== "function") throw invalid("`now` must be a function", "options.now", "As in Date.now.");
  if (driver !== undefined && driver !== "bun:sqlite" && driver !== "node:sqlite") {
    throw invalid("Unknown driver", "options.driver", 'Pass "bun:sqlite" or "node:sqlite".');
  }
  if (typeof schema !== "string") throw invalid("`schema` must be a string", "options.schema", "Leave it out.");
  const cacheBytes = amount(options, "cacheBytes", 64 * MIB);
  const settings: Pick<SqliteOptions, "codecId" | "durability" | "readOnly" | "allowNetworkFilesystem"> = {
    codecId: codecId(codec),
    durability,
    readOnly: parseFlag(options.readOnly, "readOnly"),
    allowNetworkFilesystem: parseFlag(options.allowNetworkFilesystem, "allowNetworkFilesystem"),
  };
  return {
    ...settings,
    codec,
    upcasters: guarded("options.upcasters", () => new Upcasters(upcasters)),
    now: clock(now),
    driver,
    schema,
    // The state takes most of the budget; what deltas are made of and read from, the rest.
    cacheBytes: cacheBytes * 0.75,
    payloadBytes: cacheBytes * 0.25,
    maxValueBytes: amount(options, "maxValueBytes", 64 * MIB),
    maxQueue: amount(options, "maxQueue", 65_536),
    maxQueueBytes: amount(options, "maxQueueBytes", 256 * MIB),
    busyTimeoutMs: amount(options, "busyTimeoutMs", 5000),
  };
}

/** Whole milliseconds, however fine the app's clock is. */
function clock(now: () => number): () => number {
  const remedy = "As Date.now does; nothing was written.";
  return () => {
    let time: unknown;
    try {
      time = now();
    } catch (cause) {
      throw invalid("`now` threw", "options.now", remedy, cause);
    }
    if (typeof time === "number" && time >= 0 && time <= MAX_TIME) return Math.floor(time);
    throw invalid("`now` must give milliseconds since 1970", "options.now", remedy);
  };
}

function amount(
  options: OpenOptions,
  name: "cacheBytes" | "maxValueBytes" | "maxQueue" | "maxQueueBytes" | "busyTimeoutMs",
  fallback: number,
): number {
  const value = options[name] ?? fallback;
  if (!Number.isSafeInteger(value) || value < 0) {
    throw invalid(`\`${name}\` must be a whole number >= 0`, `options.${name}`, `Leave it out for ${fallback}.`);
  }
  return value;
}
