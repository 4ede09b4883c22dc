/**
 * Every backend that this runtime can run: memory, SQLite under each driver there is, and PostgreSQL where run.mjs has
 * found a server (tests/postgres says why, if not). THREADLOG_OVER=postgres leaves out all others.
 */
import { basename, join } from "node:path";
import process from "node:process";
import { MemoryBackend } from "../../backends/memory/memory_backend.ts";
import { defaultDriver, type DriverName } from "../../backends/sqlite/driver.ts";
import { PostgresBackend } from "../../backends/postgres/postgres_backend.ts";
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
/** The server of this run of tests. */
export const postgresUrl: string | undefined = process.env.THREADLOG_POSTGRES_URL || undefined;
/** Why what needs a server is skipped; false if it is not. */
export const noPostgres: string | false = postgresUrl === undefined &&
  (process.env.THREADLOG_POSTGRES_REASON || "THREADLOG_POSTGRES_URL names no server; npm test starts one");

/** The schemas of this process's tests, by their folders. */
const schemas = new Map<string, string>();

/** Each test's own: its folder's name is like no other. */
function schemaOf(folder: string): string {
  const schema = `t_${basename(folder).replaceAll(/[^A-Za-z0-9]/g, "_")}`;
  schemas.set(folder, schema);
  return schema;
}

/** Leaves nothing of a test on the server: hundreds of schemas would make it slow. */
export async function dropSchemas(folder: string): Promise<void> {
  for (const [owner, schema] of schemas) {
    if (!owner.startsWith(folder)) continue;
    schemas.delete(owner);
    const { dropSchema } = await import("./postgres_log.ts");
    await dropSchema(schema);
  }
}

/** The drivers of this runtime, its own first. */
export const drivers: readonly DriverName[] = "Bun" in globalThis ? ["bun:sqlite", "node:sqlite"] : [defaultDriver()];

/** Whether this run is over a backend of that name, too. */
export function isChosen(name: string): boolean {
  return name.toLowerCase().startsWith(process.env.THREADLOG_OVER?.toLowerCase() ?? "");
}

function chosen<T extends { readonly name: string }>(subjects: readonly T[]): readonly T[] {
  return subjects.filter(({ name }) => isChosen(name));
}

/** The backends. */
export const backendSubjects: readonly BackendSubject[] = chosen([
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
  ...(postgresUrl === undefined ? [] : [{
    name: "PostgreSQL",
    durable: true,
    open: (folder: string, { now }: SubjectOptions) =>
      PostgresBackend.open(postgresUrl, {
        codecId: CODEC,
        now,
        durability: "normal",
        readOnly: false,
        busyTimeoutMs: 5000,
        schema: schemaOf(folder),
      }),
  }]),
]);

/** The logs. */
export const logSubjects: readonly LogSubject[] = chosen([
  { name: "memory", durable: false, open: (_folder, options) => openLog(":memory:", options) },
  ...drivers.map((driver): LogSubject => ({
    name: `SQLite (${driver})`,
    durable: true,
    open: (folder, options) => openLog(join(folder, FILE), { durability: "normal", ...options, driver }),
  })),
  ...(postgresUrl === undefined ? [] : [{
    name: "PostgreSQL",
    durable: true,
    open: (folder: string, options?: OpenOptions) =>
      openLog(postgresUrl, { durability: "normal", ...options, schema: schemaOf(folder) }),
  }]),
]);
