/**
 * From a URL to a log on a server: what is made there, and what is refused.
 *
 * @module
 */

import { ThreadlogError } from "../../log/errors.ts";
import { ADOPT } from "./adopt_sql.ts";
import { APPEND } from "./append_sql.ts";
import { Connections, isStandby, loadDriver, toHex } from "./driver.ts";
import { codeOf, failure } from "./failures.ts";
import { FORMAT_VERSION, RELATIONS, TABLES } from "./layout.ts";
import { KEYS } from "./key_sql.ts";
import { LINEAGE } from "./lineage_sql.ts";
import { PURGE } from "./purge_sql.ts";
import { READS } from "./read_sql.ts";
import { Servers, urlsOf } from "./servers.ts";

/** How a log on a server is opened. */
export interface PostgresOptions {
  readonly codecId: string;
  readonly now: () => number;
  /** "full" survives a power cut of the server; "normal" the death of this process. */
  readonly durability: "full" | "normal";
  readonly readOnly: boolean;
  /** How long to wait for another transaction. */
  readonly busyTimeoutMs: number;
  /** The schema that holds the log. */
  readonly schema: string;
  /** For tests: how long a call may go without an answer. */
  readonly answerMs?: number | undefined;
}

/** A log that is open, and what was found out about it. */
export interface OpenServer {
  readonly servers: Servers;
  /** For appends: they follow each other anyway, and nothing is held up by them. */
  readonly writing: Connections;
  readonly reading: Connections;
  readonly codecId: string;
  readonly engine: string;
  /** The server, database and schema, without user and password. */
  readonly place: string;
  /** Names the log's schema in SQL. */
  readonly inSchema: (sql: string) => string;
}

const READERS = 3;
/** How long a call may go without an answer, beside what it may wait for a lock. */
const ANSWER_MS = 30_000;
const MINIMUM_VERSION = 140_000;

/** Where a URL leads, for people: without user, password and parameters. */
export function placeOf(url: string, schema: string): string {
  const [, host = "", path = ""] = /^[^:]+:\/\/(?:[^@/]*@)?([^/?]*)(\/[^?]*)?/.exec(url) ?? [];
  return `postgres://${host}${path}, schema ${schema}`;
}

/** Connects, and makes the log where there is none. */
export async function openServer(url: string, options: PostgresOptions): Promise<OpenServer> {
  const { schema } = options;
  checkSchema(schema);
  const place = placeOf(url, schema);
  const make = await loadDriver();
  const inSchema = (sql: string) => sql.replaceAll("threadlog.", `"${schema}".`);
  let connections: Connections[] = [];
  try {
    const answerMs = options.answerMs ?? options.busyTimeoutMs + ANSWER_MS;
    // For reading, any server will do that answers.
    const servers = new Servers(urlsOf(url), async (one) => await isStandby(make, one) && !options.readOnly);
    const shared = { answerMs, patienceMs: options.busyTimeoutMs };
    const writing = new Connections(make, servers, { ...shared, max: 1 });
    const reading = new Connections(make, servers, { ...shared, max: READERS });
    connections = [writing, reading];
    const server = await look(reading, schema);
    refuseServer(server, options, place);
    let meta = server.isLog ? await readMeta(reading, inSchema) : new Map<string, string>();
    if (!meta.has("format")) {
      if (options.readOnly) {
        throw new ThreadlogError("not_found", "The log does not exist", {
          place,
          remedy: "A read-only log is never created; check the database and the `schema`.",
        });
      }
      refuseForeign(server, place);
      await setUp(reading, inSchema, options);
      meta = await readMeta(reading, inSchema);
    }
    refuseFormat(meta, place);
    const engine = `postgres ${server.version}`;
    return { servers, writing, reading, codecId: meta.get("codec")!, engine, place, inSchema };
  } catch (error) {
    await Promise.all(connections.map((one) => one.close().catch(() => {})));
    throw failure(error, "opening it", place);
  }
}

function checkSchema(schema: string): void {
  // Nothing that would need a quotation mark: the name becomes a part of the SQL.
  if (/^[a-z_][a-z0-9_-]{0,62}$/i.test(schema) && !schema.startsWith("pg_")) return;
  throw new ThreadlogError("invalid_argument", `${JSON.stringify(schema)} can't be the name of a schema`, {
    place: "options.schema",
    remedy: 'Use up to 63 of a-z, 0-9, "_" and "-", beginning with a letter but not with "pg_".',
  });
}

interface Server {
  readonly version: string;
  readonly versionNumber: number;
  readonly fsync: string;
  readonly commit: string;
  readonly standbys: string;
  readonly notation: string;
  readonly isStandby: boolean;
  readonly isLog: boolean;
  /** What is in the schema and not a log's. */
  readonly foreign: readonly string[];
}

const LOOK = `
SELECT
  current_setting('server_version') AS version,
  current_setting('server_version_num')::int AS "versionNumber",
  current_setting('fsync') AS fsync,
  current_setting('synchronous_commit') AS commit,
  current_setting('synchronous_standby_names') AS standbys,
  current_setting('bytea_output') AS notation,
  pg_is_in_recovery() AS "isStandby",
  EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'meta'
  ) AS "isLog",
  (
    SELECT coalesce(json_agg(c.relname), '[]') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname NOT IN (SELECT json_array_elements_text($2))
  ) AS foreign`;

async function look(connections: Connections, schema: string): Promise<Server> {
  const [row] = await connections.ask(LOOK, [schema, RELATIONS]);
  return row as unknown as Server;
}

function refuseServer(server: Server, { durability, readOnly }: PostgresOptions, place: string): void {
  const refuse = (code: "unsupported" | "read_only" | "storage", what: string, remedy: string) => {
    throw new ThreadlogError(code, what, { place, remedy });
  };
  if (server.versionNumber < MINIMUM_VERSION) {
    refuse("unsupported", `PostgreSQL ${server.version} is too old`, "Use version 14 or newer.");
  }
  if (server.notation !== "hex") {
    refuse("unsupported", "The server's bytea_output is not hex", "ALTER ROLE ... SET bytea_output = 'hex'.");
  }
  if (readOnly) return;
  if (server.isStandby) {
    refuse("read_only", "The server is a standby", "Connect to the primary, or open it with { readOnly: true }.");
  }
  if (durability !== "full") return;
  const remedy = (setting: string) =>
    `Set ${setting}, or open the log with { durability: "normal" } and what that promises.`;
  if (server.fsync !== "on") {
    refuse("storage", "A power cut may take acknowledged appends: the server's fsync is off", remedy("fsync = on"));
  }
  const weak = server.standbys === "" ? ["off"] : ["off", "local", "remote_write"];
  if (weak.includes(server.commit)) {
    const what = `A power cut may take acknowledged appends: synchronous_commit is ${server.commit}`;
    refuse("storage", what, remedy("synchronous_commit = on"));
  }
}

function refuseForeign({ foreign }: Server, place: string): void {
  if (foreign.length === 0) return;
  throw new ThreadlogError("not_a_log", `The schema holds tables of another application: ${foreign.slice(0, 3)}`, {
    place,
    remedy: "Name a schema that Threadlog made, or one that does not exist yet; this one was not changed.",
  });
}

async function readMeta(connections: Connections, inSchema: (sql: string) => string): Promise<Map<string, string>> {
  const rows = await connections.ask(inSchema("SELECT name, value FROM threadlog.meta"));
  return new Map(rows.map(({ name, value }) => [name as string, value as string]));
}

function refuseFormat(meta: ReadonlyMap<string, string>, place: string): void {
  const format = Number(meta.get("format"));
  if (!Number.isSafeInteger(format) || !meta.has("codec")) {
    throw new ThreadlogError("not_a_log", "The schema has a table `meta` that is not a log's", {
      place,
      remedy: "Name a schema that Threadlog made, or one that does not exist yet; this one was not changed.",
    });
  }
  if (format <= FORMAT_VERSION) return;
  throw new ThreadlogError("newer_format", `The log has format ${format}; this release knows ${FORMAT_VERSION}`, {
    place,
    remedy: "Upgrade threadlog; the log was not changed.",
  });
}

/** Raised where somebody else was quicker. */
const DONE = "TL005";

/** Everything that a log needs, in one transaction. Of instances that open one log at once, one makes it. */
async function setUp(
  connections: Connections,
  inSchema: (sql: string) => string,
  { schema, codecId, busyTimeoutMs }: PostgresOptions,
): Promise<void> {
  const setup = `
SELECT set_config('lock_timeout', '${Math.max(busyTimeoutMs, 1)}ms', true);
SELECT pg_advisory_xact_lock(hashtextextended('threadlog.', 0));
DO $$
BEGIN
  IF to_regclass('threadlog.meta') IS NOT NULL THEN
    IF EXISTS (SELECT FROM threadlog.meta WHERE name = 'format') THEN
      RAISE EXCEPTION 'done' USING ERRCODE = '${DONE}';
    END IF;
  END IF;
END $$;
CREATE SCHEMA IF NOT EXISTS "${schema}";
${TABLES}
${LINEAGE}
${KEYS}
${READS}
${PURGE}
${APPEND}
${ADOPT}
INSERT INTO threadlog.meta VALUES ('format', '${FORMAT_VERSION}'), ('codec', convert_from('\\x${hex(codecId)}', 'UTF8'))
ON CONFLICT DO NOTHING;
`;
  try {
    await connections.script(inSchema(setup));
  } catch (error) {
    if (codeOf(error) !== DONE) throw error;
  }
}

function hex(text: string): string {
  return toHex(new TextEncoder().encode(text));
}
