/**
 * The npm package `postgres`, loaded only when a log on a server is opened, and what this backend needs of it: calls that
 * end, one way or the other, and a connection that is made anew where one was lost.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { clearTimeout, setTimeout } from "node:timers";
import { ThreadlogError } from "../../log/errors.ts";
import { isElsewhere, isLost, isUnsent, isUseless, NoAnswer } from "./failures.ts";
import type { Servers } from "./servers.ts";

/** What is bound to a statement. Objects become JSON. */
export type Parameter = string | number | boolean | Uint8Array | object | null;

/** A row, by column name. */
export type Row = Readonly<Record<string, unknown>>;

/** A pool of connections, as the package has it. */
interface Pool {
  unsafe(text: string, parameters: readonly Parameter[], options: { readonly prepare: boolean }): Promise<Row[]>;
  end(options: { readonly timeout: number }): Promise<void>;
}

/** Makes a pool. */
export type MakePool = (url: string, options: object) => Pool;

const CONNECT_SECONDS = 10;
/** Seconds that a server has to say what it is. */
const ASK_SECONDS = 2;
/** Seconds before a connection that could not be made is tried again. */
const BACKOFF_SECONDS = 0.05;

/** Loads the package. */
export async function loadDriver(): Promise<MakePool> {
  try {
    const module = await import("postgres") as unknown as { readonly default: MakePool };
    return module.default;
  } catch (cause) {
    throw new ThreadlogError("unsupported", "A log on PostgreSQL needs the package `postgres`", {
      remedy: "Install it beside this one: npm install postgres, bun add postgres, or deno add npm:postgres.",
      cause,
    });
  }
}

/** How connections are used. */
export interface ConnectionOptions {
  /** At most so many at once. */
  readonly max: number;
  /** How long a call may go without an answer. */
  readonly answerMs: number;
  /** How long a call waits for a primary, where several servers are named. */
  readonly patienceMs: number;
}

/** Asks a server whether it is a standby, on a connection of its own. */
export async function isStandby(make: MakePool, url: string): Promise<boolean> {
  const pool = make(url, { ...SETTINGS, max: 1, connect_timeout: ASK_SECONDS });
  try {
    const asked = pool.unsafe("SELECT pg_is_in_recovery() AS standby", [], { prepare: false });
    const [row] = await answerOf(asked, ASK_SECONDS * 1000);
    return row!.standby as boolean;
  } finally {
    pool.end({ timeout: 0 }).catch(() => {});
  }
}

const SETTINGS = {
  // No catalogue of types: each of ours is known.
  fetch_types: false,
  connect_timeout: CONNECT_SECONDS,
  backoff: BACKOFF_SECONDS,
  onnotice: () => {},
  connection: { application_name: "threadlog" },
};

/** The answer, if it comes: a connection may be silent for as long as it likes. */
async function answerOf<T>(asked: Promise<T>, limitMs: number): Promise<T> {
  const silence = Promise.withResolvers<never>();
  const timer = setTimeout(() => silence.reject(new NoAnswer(limitMs)), limitMs);
  try {
    return await Promise.race([asked, silence.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** A pool, and the server that it leads to. */
interface Line {
  readonly url: string;
  readonly pool: Pool;
}

/** Connections to the primary that are used alike. */
export class Connections {
  readonly #servers: Servers;
  readonly #options: ConnectionOptions;
  readonly #make: (url: string) => Pool;
  #line: Line | undefined;
  #isClosed = false;

  /** Connects with the first call. */
  constructor(make: MakePool, servers: Servers, options: ConnectionOptions) {
    this.#servers = servers;
    this.#options = options;
    this.#make = (url) => make(url, { ...SETTINGS, types: TYPES, max: options.max });
  }

  /**
   * Runs one statement in one round trip. (The first time on a connection the driver asks for the types first.)
   * A failure tells whether it may have been carried out: see failures.ts. Where it surely was not, and there are other
   * servers, it is tried there.
   */
  async run(text: string, parameters: readonly Parameter[] = []): Promise<Row[]> {
    for (const deadline = performance.now() + this.#options.patienceMs;;) {
      const line = this.#line ?? await this.#connect(deadline);
      try {
        return await answerOf(line.pool.unsafe(text, parameters, { prepare: true }), this.#options.answerMs);
      } catch (error) {
        // Another call has given the connections up before this one was sent.
        if (isUnsent(error) && line !== this.#line) continue;
        const isMoving = this.#servers.areSeveral && isElsewhere(error);
        if (isUseless(error) || isMoving) this.#drop(line);
        if (!isMoving || performance.now() > deadline) throw error;
      }
    }
  }

  async #connect(deadline: number): Promise<Line> {
    const found = this.#servers.primary(Math.max(0, deadline - performance.now()));
    const url = typeof found === "string" ? found : await found;
    // Whoever waited for the same search may have been quicker.
    if (this.#line?.url === url) return this.#line;
    if (this.#isClosed) throw Object.assign(new Error("The connections are closed"), { code: "CONNECTION_ENDED" });
    return this.#line = { url, pool: this.#make(url) };
  }

  #drop(line: Line): void {
    this.#servers.lost(line.url);
    if (this.#line !== line) return;
    this.#line = undefined;
    line.pool.end({ timeout: 0 }).catch(() => {});
  }

  /** The same, for what changes nothing: on a connection that was lost it is asked once more. */
  async ask(text: string, parameters: readonly Parameter[] = []): Promise<Row[]> {
    try {
      return await this.run(text, parameters);
    } catch (error) {
      if (!isLost(error)) throw error;
      return await this.run(text, parameters);
    }
  }

  /** Runs statements without parameters, as one transaction unless they say otherwise, however long they take. */
  async script(text: string): Promise<void> {
    const { pool } = this.#line ?? await this.#connect(performance.now() + this.#options.patienceMs);
    await pool.unsafe(text, [], { prepare: false });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#line?.pool.end({ timeout: 5 });
  }
}

const TYPES = {
  integer: { to: 20, from: [20], serialize: String, parse: Number },
  bytes: { to: 17, from: [17], serialize: (bytes: Uint8Array) => `\\x${toHex(bytes)}`, parse: bytesOf },
};

/** Bytes in hexadecimal. */
export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

/** Bytes from PostgreSQL's own notation of them. */
export function bytesOf(text: string): Uint8Array {
  const buffer = Buffer.from(text.slice(2), "hex");
  return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}
