/**
 * The file's layout, version 1.
 *
 * @module
 */

import { ThreadlogError } from "../../log/errors.ts";
import { type Connection, DAMAGED } from "./driver.ts";

/** "TLOG", in the file's header at byte 68. */
export const APPLICATION_ID = 0x544c4f47;
/** In the file's header at byte 60. */
export const FORMAT_VERSION = 1;

// The tables versions, keys and ids are indexes of events, up to the position that meta's "indexed" tells; what follows it
// is found in memory (tail.ts).
// Names are BLOBs: SQLite orders those by byte, which is code point order, and they may hold U+0000.
// `type` is an INTEGER for built-in types, a BLOB for the app's own. NULL stands for the usual: schema 1, form 0.
const SCHEMA = `
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE threads (
  id INTEGER PRIMARY KEY,
  path BLOB NOT NULL UNIQUE,
  created INTEGER NOT NULL,
  parent INTEGER,
  parent_version INTEGER,
  erased INTEGER NOT NULL DEFAULT 0,
  tombstone INTEGER NOT NULL DEFAULT 0,
  purge INTEGER
);
CREATE INDEX threads_purge ON threads (id) WHERE purge IS NOT NULL;
CREATE TABLE events (
  position INTEGER PRIMARY KEY,
  thread INTEGER NOT NULL,
  version INTEGER NOT NULL,
  time INTEGER NOT NULL,
  latest INTEGER NOT NULL,
  type NOT NULL,
  key BLOB,
  id BLOB,
  schema INTEGER,
  form INTEGER,
  base INTEGER,
  packing INTEGER,
  link BLOB NOT NULL,
  meta BLOB,
  value BLOB,
  state BLOB
);
CREATE TABLE versions (thread INTEGER, version INTEGER, position INTEGER, PRIMARY KEY (thread, version)) WITHOUT ROWID;
CREATE TABLE keys (thread INTEGER, key BLOB, position INTEGER, PRIMARY KEY (thread, key, position)) WITHOUT ROWID;
CREATE TABLE ids (thread INTEGER, id BLOB, position INTEGER, PRIMARY KEY (thread, id, position)) WITHOUT ROWID;
CREATE TABLE bases (
  thread INTEGER NOT NULL,
  position INTEGER NOT NULL,
  origin_thread INTEGER NOT NULL,
  origin_position INTEGER NOT NULL,
  PRIMARY KEY (thread, position)
) WITHOUT ROWID;
CREATE INDEX bases_origin ON bases (origin_thread) WHERE origin_thread > 0;
CREATE TABLE projections (name BLOB PRIMARY KEY, version INTEGER NOT NULL, position INTEGER NOT NULL, state BLOB NOT NULL);
`;

const TABLES = Array.from(SCHEMA.matchAll(/CREATE TABLE (\w+)/g), ([, name]) => name!);

function pragma(connection: Connection, name: string): number {
  return Object.values(connection.prepare(`PRAGMA ${name}`).get()!)[0] as number;
}

/** Whether the file is empty, a log, or refused: another application's, or a newer format. Changes nothing. */
export function inspect(connection: Connection, path: string): "empty" | "log" {
  const application = pragma(connection, "application_id");
  const version = pragma(connection, "user_version");
  const tables = connection.prepare("SELECT count(*) AS n FROM sqlite_schema").get()!.n as number;
  if (application === 0 && version === 0 && tables === 0) return "empty";
  if (application !== APPLICATION_ID) {
    throw new ThreadlogError("not_a_log", "The file is a database of another application", {
      place: path,
      remedy: "Name a file that Threadlog wrote, or one that does not exist yet; this one was not changed.",
    });
  }
  if (version > FORMAT_VERSION) {
    throw new ThreadlogError("newer_format", `The file has format ${version}; this release knows ${FORMAT_VERSION}`, {
      place: path,
      remedy: "Upgrade threadlog; the file was not changed.",
    });
  }
  const names = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all().map(({ name }) => name);
  const missing = TABLES.find((table) => !names.includes(table));
  if (missing === undefined) return "log";
  throw new ThreadlogError("corrupt", `The file has lost its table ${missing}`, { place: path, remedy: DAMAGED });
}

/** Which codec the log was written with. */
export function readCodecId(connection: Connection, path: string): string {
  const id = connection.prepare("SELECT value FROM meta WHERE name = 'codec'").get()?.value;
  if (typeof id === "string") return id;
  throw new ThreadlogError("corrupt", "The file does not say any more which codec it was written with", {
    place: `${path}, table meta`,
    remedy: DAMAGED,
  });
}

/** Creates the tables. Runs inside a transaction. */
export function createSchema(connection: Connection, codecId: string): void {
  connection.exec(SCHEMA);
  connection.prepare("INSERT INTO meta (name, value) VALUES ('codec', ?)").run(codecId);
  connection.exec(
    "INSERT INTO meta (name, value) VALUES ('erased', 0), ('last_tombstone', 0), ('indexed', 0), ('scrub_due', 0)",
  );
  connection.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
  connection.exec(`PRAGMA user_version = ${FORMAT_VERSION}`);
}
