/**
 * What the tests of the PostgreSQL backend share: a schema of their own, raw SQL, and backends on it.
 */
import { randomUUID } from "node:crypto";
import { describe, it } from "node:test";
import postgres from "postgres";
import type { PostgresOptions } from "../../backends/postgres/open_server.ts";
import { PostgresBackend } from "../../backends/postgres/postgres_backend.ts";
import { noPostgres, postgresUrl } from "./backends.ts";

/** A schema on the server of this run. */
export class Place {
  readonly url: string;
  readonly schema = `p_${randomUUID().replaceAll("-", "")}`;
  /** Raw SQL; the search path is the schema. */
  readonly sql: postgres.Sql;

  constructor(url: string) {
    this.url = url;
    this.sql = postgres(url, {
      max: 10,
      idle_timeout: 2,
      onnotice: () => {},
      connection: { search_path: this.schema },
    });
  }

  /** How tests open it, unless they say otherwise. */
  options(options: Partial<PostgresOptions> = {}): PostgresOptions {
    return {
      codecId: "contract",
      now: Date.now,
      durability: "full",
      readOnly: false,
      busyTimeoutMs: 5000,
      schema: this.schema,
      ...options,
    };
  }

  open(options: Partial<PostgresOptions> = {}, url: string = this.url): Promise<PostgresBackend> {
    return PostgresBackend.open(url, this.options(options));
  }
}

/** Tests that need the server; without one, a single test says so. */
export function describeOnServer(name: string, body: () => void): void {
  if (noPostgres === false) describe(name, body);
  else describe(name, () => it("needs a server", { skip: noPostgres }, () => {}));
}

/** A test body that is given a schema of its own, which is dropped after it. */
export function onSchema(body: (place: Place) => Promise<void>, url = () => postgresUrl!): () => Promise<void> {
  return async () => {
    const place = new Place(url());
    try {
      await body(place);
    } finally {
      await place.sql.unsafe(`DROP SCHEMA IF EXISTS "${place.schema}" CASCADE`).catch(() => {});
      await place.sql.end({ timeout: 1 });
    }
  };
}

/** Drops a schema of the server of this run. */
export async function dropSchema(schema: string): Promise<void> {
  emptied ??= new Place(postgresUrl!);
  await emptied.sql.unsafe(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
}

let emptied: Place | undefined;

/** A schema with nothing in it, the same one each time: to make one takes longer than most tests. */
export async function emptySchema(): Promise<string> {
  const place = emptied ??= new Place(postgresUrl!);
  const [row] = await place.sql`SELECT to_regclass('lanes') IS NOT NULL AS found`;
  if (row!.found) {
    await place.sql`TRUNCATE events, threads, bases, purges, states`;
    await place.sql`UPDATE lanes SET position = 0, time = 0, threads = 0, erased = 0, tombstone = 0, scrubbed = 0`;
  }
  return place.schema;
}

/** A server of the test's own, to be stopped and started. */
export interface OwnServer {
  readonly url: string;
  readonly port: number;
  start(): Promise<void>;
  /** Another server that follows this one, which is stopped for a moment. */
  makeStandby(settings?: Readonly<Record<string, string>>): Promise<OwnServer>;
  stop(signal: "SIGINT" | "SIGQUIT"): Promise<void>;
  end(): Promise<void>;
}

/** Starts one. */
export async function ownServer(settings: Readonly<Record<string, string>> = {}): Promise<OwnServer> {
  const { startPostgres } = await import(new URL("./postgres.mjs", import.meta.url).href) as {
    startPostgres(settings: object): Promise<OwnServer | { readonly url?: undefined; readonly reason: string }>;
  };
  const server = await startPostgres(settings);
  if (server.url === undefined) throw new Error(server.reason);
  return server;
}
