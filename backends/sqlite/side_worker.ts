/**
 * A thread beside the event loop, for what SQLite can only do in one piece: checkpoints and copies.
 *
 * @module
 */

import { Worker } from "node:worker_threads";
import type { Connection, Row, SqlValue } from "./driver.ts";

/** Ends the thread when it has had nothing to do for this long, in milliseconds. */
const IDLE_MS = 2000;

// A string, not a module of its own: it must load the same from source, from a package, and out of a bundle.
const SOURCE = `
const { parentPort, workerData } = require("node:worker_threads");
const { driver, path, readOnly } = workerData;
process.emitWarning = () => {}; // as in driver.ts
const sqlite = process.getBuiltinModule(driver);
const database = driver === "bun:sqlite"
  ? new sqlite.Database(path, readOnly ? { readonly: true } : { create: true })
  : new sqlite.DatabaseSync(path, { readOnly });
database.exec("PRAGMA busy_timeout = 1000");
parentPort.on("message", ({ sql, values }) => {
  if (sql === null) {
    database.close();
    parentPort.postMessage({ rows: [] });
    return;
  }
  try {
    const statement = database.prepare(sql);
    const rows = statement.all(...values).map((row) => ({ ...row }));
    statement.finalize?.();
    parentPort.postMessage({ rows });
  } catch (error) {
    parentPort.postMessage({ error: { message: error.message, errcode: error.errcode, errno: error.errno } });
  }
});
`;

interface Answer {
  readonly rows?: Row[];
  readonly error?: { readonly message: string };
}

/** Runs statements on a connection of its own, one after the other. */
export class SideWorker {
  readonly #connection: Pick<Connection, "driver" | "path" | "readOnly">;
  #worker: Worker | undefined;
  #queue: Promise<unknown> = Promise.resolve();
  #idle: ReturnType<typeof setTimeout> | undefined;

  /** Its connection will be like the one given. */
  constructor(connection: Pick<Connection, "driver" | "path" | "readOnly">) {
    this.#connection = connection;
  }

  /** Runs one statement, off the event loop. Rejects where threads are not to be had, or with SQLite's error. */
  run(sql: string, ...values: SqlValue[]): Promise<Row[]> {
    const result = this.#queue.then(() => this.#ask(sql, values));
    this.#queue = result.catch(() => {});
    return result;
  }

  /** Ends the thread, after what it is doing. */
  async close(): Promise<void> {
    await this.#queue;
    await this.#end();
  }

  async #ask(sql: string, values: readonly SqlValue[]): Promise<Row[]> {
    clearTimeout(this.#idle);
    const { driver, path, readOnly } = this.#connection;
    this.#worker ??= new Worker(SOURCE, {
      eval: true,
      name: "threadlog",
      workerData: { driver, path, readOnly },
    });
    try {
      return await this.#exchange(this.#worker, sql, values);
    } finally {
      this.#idle = setTimeout(() => void (this.#queue = this.#queue.then(() => this.#end())), IDLE_MS);
      this.#idle.unref();
    }
  }

  async #exchange(worker: Worker, sql: string | null, values: readonly SqlValue[]): Promise<Row[]> {
    // While an answer is awaited the process must not end; idle, the thread must not keep it alive.
    worker.ref();
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const ended = () => reject(new Error("The thread ended before it answered"));
    worker.once("message", resolve);
    worker.once("error", reject);
    worker.once("exit", ended);
    try {
      worker.postMessage({ sql, values });
      const { rows, error } = await promise;
      if (error === undefined) return rows!;
      throw Object.assign(new Error(error.message), error);
    } catch (error) {
      if (!Object.hasOwn(error as object, "errcode")) this.#abandon(worker);
      throw error;
    } finally {
      worker.off("message", resolve);
      worker.off("error", reject);
      worker.off("exit", ended);
      worker.unref();
    }
  }

  /** A thread that failed, rather than its statement, is not asked again. */
  #abandon(worker: Worker): void {
    if (this.#worker === worker) this.#worker = undefined;
    void worker.terminate();
  }

  async #end(): Promise<void> {
    clearTimeout(this.#idle);
    const worker = this.#worker;
    this.#worker = undefined;
    if (worker === undefined) return;
    await this.#exchange(worker, null, []).catch(() => {});
    await worker.terminate();
  }
}
