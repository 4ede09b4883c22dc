/**
 * Every backend that this runtime can run: memory, and SQLite under each driver there is.
 */
import { join } from "node:path";
import { MemoryBackend } from "../../backends/memory/memory_backend.ts";
import { defaultDriver, type DriverName } from "../../backends/sqlite/driver.ts";
import { SqliteBackend } from "../../backends/sqlite/sqlite_backend.ts";
import type { Backend } from "../../log/backend.ts";
import { type Log, openLog, type OpenOptions } from "../../mod.ts";

/** What a backend under test is told. */
export interface SubjectOptions {
  readonly now: () => number;
}

/** A kind of backend, as the contract suite needs it. */
export interface BackendSubject {
  readonly name: string;
  /** Whether a store outlives its being closed. */
  readonly durable: boolean;
  /** Opens the one store of a test; the folder is the test's own. */
  open(folder: string, options: SubjectOptions): Promise<Backend>;
}

/** A kind of log, as tests of the public API need it. */
export interface LogSubject {
  readonly name: string;
  readonly durable: boolean;
  open(folder: string, options?: OpenOptions): Promise<Log>;
}

const CODEC = "contract";
const FILE = "log.db";
/** The drivers of this runtime, its own first. */
export const drivers: readonly DriverName[] = "Bun" in globalThis ? ["bun:sqlite", "node:sqlite"] : [defaultDriver()];

/** The backends. */
export const backendSubjects: readonly BackendSubject[] = [
  {
    name: "memory",
    durable: false,
    open: (_folder, { now }) =>
      Promise.resolve(new MemoryBackend({ codecId: CODEC, now, payloadBytes: 1 << 20, maxValueBytes: 1 << 26 })),
  },
  ...drivers.map((driver): BackendSubject => ({
    name: `SQLite (${driver})`,
    durable: true,
    open: (folder, { now }) =>
      SqliteBackend.open(join(folder, FILE), {
        codecId: CODEC,
        now,
        driver,
        durability: "normal",
        readOnly: false,
        busyTimeoutMs: 5000,
        allowNetworkFilesystem: true,
        payloadBytes: 1 << 20,
        maxValueBytes: 1 << 26,
      }),
  })),
];

/** The logs. */
export const logSubjects: readonly LogSubject[] = [
  { name: "memory", durable: false, open: (_folder, options) => openLog(":memory:", options) },
  ...drivers.map((driver): LogSubject => ({
    name: `SQLite (${driver})`,
    durable: true,
    open: (folder, options) => openLog(join(folder, FILE), { durability: "normal", ...options, driver }),
  })),
];
