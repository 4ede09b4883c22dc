/**
 * The store's SQL: a small, fixed set of statements, so that nothing is prepared twice.
 *
 * @module
 */

import type { Connection, Statement } from "./driver.ts";

const COLUMNS =
  "position, thread, version, time, latest, type, key, id, schema, form, base, packing, link, meta, value, state";

/** The next key of the thread behind (or before) another: one seek. */
const nextKey = (sign: ">" | "<", order: "ASC" | "DESC", from: string) =>
  `(SELECT key FROM keys WHERE thread = ?1 AND key ${sign} ${from}
    AND key ${sign === ">" ? "<" : ">"} ?3 ORDER BY key ${order} LIMIT 1)`;

/** Two seeks a key, however many versions it has: a loose index scan. */
const keyScan = (sign: ">" | "<", order: "ASC" | "DESC") => `
WITH RECURSIVE k (key) AS (
  SELECT ${nextKey(sign, order, "?2")}
  UNION ALL
  SELECT ${nextKey(sign, order, "k.key")} FROM k WHERE k.key IS NOT NULL
  LIMIT ?6
)
SELECT key, (
  SELECT position FROM keys WHERE thread = ?1 AND key = k.key AND position > ?4 AND position <= ?5
  ORDER BY position DESC LIMIT 1
) AS position FROM k WHERE key IS NOT NULL`;

const own = (order: "ASC" | "DESC") =>
  `SELECT ${COLUMNS} FROM events WHERE position IN
    (SELECT position FROM versions WHERE thread = ? AND version BETWEEN ? AND ? ORDER BY version ${order} LIMIT ?)
    ORDER BY position ${order}`;

/** The names of the store's statements. */
export type StatementName =
  | "head"
  | "nodeByPath"
  | "nodeById"
  | "nodes"
  | "headOf"
  | "nodeHead"
  | "event"
  | "positionOf"
  | "newest"
  | "keysUp"
  | "keysDown"
  | "ownUp"
  | "ownDown"
  | "scan"
  | "byId"
  | "lastId"
  | "timeBefore"
  | "basesOf"
  | "baseBefore"
  | "basesOn"
  | "createNode"
  | "insert"
  | "insertBase"
  | "erase"
  | "nextToPurge"
  | "requestPurge"
  | "purged"
  | "removable"
  | "removeVersion"
  | "removeKey"
  | "removeId"
  | "removeEvent"
  | "indexed"
  | "setIndexed"
  | "unindexed"
  | "indexVersions"
  | "indexKeys"
  | "indexIds"
  | "removeBases"
  | "countErased"
  | "erased"
  | "threadCount"
  | "loadState"
  | "saveState"
  | "lastTombstone"
  | "setLastTombstone"
  | "dropStates"
  | "scrubDue"
  | "setScrubDue";

const TEXTS: Readonly<Record<StatementName, string>> = {
  head: "SELECT position, time FROM events ORDER BY position DESC LIMIT 1",
  nodeByPath: "SELECT * FROM threads WHERE path = ?",
  nodeById: "SELECT * FROM threads WHERE id = ?",
  nodes: "SELECT * FROM threads WHERE path > ?1 AND path >= ?2 AND path < ?3 ORDER BY path LIMIT ?4",
  headOf: "SELECT position FROM versions WHERE thread = ? ORDER BY version DESC LIMIT 1",
  nodeHead: "SELECT version, position, time, latest, link FROM events WHERE position = ?",
  event: `SELECT ${COLUMNS} FROM events WHERE position = ?`,
  positionOf: "SELECT position FROM versions WHERE thread = ? AND version = ?",
  newest: `SELECT position FROM keys WHERE thread = ? AND key = ? AND position > ? AND position <= ?
       ORDER BY position DESC LIMIT 1`,
  keysUp: keyScan(">", "ASC"),
  keysDown: keyScan("<", "DESC"),
  ownUp: own("ASC"),
  ownDown: own("DESC"),
  scan: `SELECT ${COLUMNS} FROM events WHERE position > ? AND position <= ? ORDER BY position LIMIT ?`,
  lastId: "SELECT id FROM ids WHERE thread = ? ORDER BY id DESC LIMIT 1",
  byId: "SELECT position FROM ids WHERE thread = ? AND id = ? ORDER BY position DESC LIMIT 1",
  timeBefore: "SELECT position, time FROM events WHERE position <= ? ORDER BY position DESC LIMIT 1",
  basesOf: "SELECT * FROM bases WHERE thread = ? ORDER BY position LIMIT ?",
  baseBefore: "SELECT * FROM bases WHERE thread = ? AND position <= ? ORDER BY position DESC LIMIT 1",
  basesOn: "SELECT * FROM bases WHERE origin_thread = ?",
  createNode: "INSERT INTO threads (path, created, parent, parent_version, erased) VALUES (?, ?, ?, ?, ?) RETURNING id",
  insert: `INSERT INTO events (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  insertBase: "INSERT INTO bases (thread, position, origin_thread, origin_position) VALUES (?, ?, ?, ?)",
  erase: "UPDATE threads SET erased = ?, tombstone = ?, purge = 1 WHERE id = ?",
  nextToPurge: "SELECT id FROM threads WHERE purge IS NOT NULL ORDER BY id LIMIT 1",
  requestPurge: "UPDATE threads SET purge = 1 WHERE id = ?",
  purged: "UPDATE threads SET purge = NULL WHERE id = ?",
  removable: `SELECT position FROM versions WHERE thread = ? AND version < ? AND position > ? AND position < ?
       ORDER BY version LIMIT ?`,
  removeVersion:
    "DELETE FROM versions WHERE (thread, version) = (SELECT thread, version FROM events WHERE position = ?)",
  removeKey:
    "DELETE FROM keys WHERE (thread, key, position) = (SELECT thread, key, position FROM events WHERE position = ?)",
  removeId:
    "DELETE FROM ids WHERE (thread, id, position) = (SELECT thread, id, position FROM events WHERE position = ?)",
  removeEvent: "DELETE FROM events WHERE position = ?",
  removeBases: "DELETE FROM bases WHERE thread = ? AND position > ? AND position < ?",
  indexed: "SELECT value FROM meta WHERE name = 'indexed'",
  setIndexed: "UPDATE meta SET value = ? WHERE name = 'indexed'",
  unindexed: "SELECT position, thread, version, key, id FROM events WHERE position > ? ORDER BY position",
  // A row that is damaged must not keep others from being indexed: verify() tells of it.
  indexVersions: `INSERT OR IGNORE INTO versions SELECT thread, version, position FROM events
       WHERE position > ? AND position <= ? ORDER BY thread, version`,
  indexKeys: `INSERT OR IGNORE INTO keys SELECT thread, key, position FROM events
       WHERE position > ? AND position <= ? AND key IS NOT NULL ORDER BY thread, key, position`,
  indexIds: `INSERT OR IGNORE INTO ids SELECT thread, id, position FROM events
       WHERE position > ? AND position <= ? AND id IS NOT NULL ORDER BY thread, id, position`,
  countErased: "UPDATE meta SET value = value + ? WHERE name = 'erased'",
  erased: "SELECT value FROM meta WHERE name = 'erased'",
  threadCount: "SELECT max(id) AS n FROM threads",
  loadState: "SELECT version, position, state FROM projections WHERE name = ?",
  saveState: "INSERT OR REPLACE INTO projections (name, version, position, state) VALUES (?, ?, ?, ?)",
  lastTombstone: "SELECT value FROM meta WHERE name = 'last_tombstone'",
  setLastTombstone: "UPDATE meta SET value = ? WHERE name = 'last_tombstone'",
  dropStates: "DELETE FROM projections",
  scrubDue: "SELECT value FROM meta WHERE name = 'scrub_due'",
  setScrubDue: "UPDATE meta SET value = ? WHERE name = 'scrub_due'",
};

/** The store's statements, by name. */
export type Statements = Readonly<Record<StatementName, Statement>>;

/** Prepares every statement that the store uses. */
export function prepareAll(connection: Connection): Statements {
  const statements = Object.entries(TEXTS).map(([name, text]) => [name, connection.prepare(text)]);
  return Object.fromEntries(statements) as Statements;
}
