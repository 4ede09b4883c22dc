/**
 * The floor: the same bytes through the runtime's own SQLite, and through the file system alone.
 *
 * @module
 */

import { closeSync, fdatasyncSync, openSync, writeSync } from "node:fs";
import process from "node:process";

interface NativeStatement {
  run(...values: (string | number | Uint8Array)[]): unknown;
}

interface NativeDatabase {
  exec(sql: string): void;
  prepare(sql: string): NativeStatement;
  close(): void;
}

type NativeModule = {
  readonly Database: new (path: string) => NativeDatabase;
  readonly DatabaseSync: new (path: string) => NativeDatabase;
};

/** A table of rows, each its own commit or many in one: as little as an event log in SQLite can be. */
export class RawSqlite {
  readonly #database: NativeDatabase;
  readonly #insert: NativeStatement;
  #version = 0;

  constructor(path: string, synchronous: "NORMAL" | "FULL") {
    const emitWarning = process.emitWarning;
    process.emitWarning = () => {};
    const bun = "Bun" in globalThis;
    const module = process.getBuiltinModule(bun ? "bun:sqlite" : "node:sqlite") as unknown as NativeModule;
    process.emitWarning = emitWarning;
    this.#database = bun ? new module.Database(path) : new module.DatabaseSync(path);
    this.#database.exec("PRAGMA journal_mode = WAL");
    this.#database.exec(`PRAGMA synchronous = ${synchronous}`);
    this.#database.exec(
      "CREATE TABLE event (position INTEGER PRIMARY KEY, thread INTEGER, version INTEGER, value BLOB NOT NULL)",
    );
    this.#insert = this.#database.prepare("INSERT INTO event (thread, version, value) VALUES (1, ?, ?)");
  }

  /** One row, one commit. */
  put(value: Uint8Array): void {
    this.#insert.run(++this.#version, value);
  }

  /** Many rows, one commit. */
  putAll(values: readonly Uint8Array[]): void {
    this.#database.exec("BEGIN IMMEDIATE");
    for (const value of values) this.put(value);
    this.#database.exec("COMMIT");
  }

  close(): void {
    this.#database.close();
  }
}

/** A file that is written from its beginning again and again, as a recycled WAL is. */
export class RawFile {
  static readonly #SLOTS = 1024;
  readonly #descriptor: number;
  #slot = 0;

  constructor(path: string, bytes: number) {
    this.#descriptor = openSync(path, "w");
    const empty = new Uint8Array(bytes);
    for (let slot = 0; slot < RawFile.#SLOTS; slot++) writeSync(this.#descriptor, empty);
    fdatasyncSync(this.#descriptor);
  }

  /** A pwrite. */
  write(value: Uint8Array): void {
    const slot = this.#slot++ % RawFile.#SLOTS;
    writeSync(this.#descriptor, value, 0, value.length, slot * value.length);
  }

  /** A pwrite and an fdatasync. */
  writeAndSync(value: Uint8Array): void {
    this.write(value);
    fdatasyncSync(this.#descriptor);
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}
