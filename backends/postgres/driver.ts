/**
 * The npm package `postgres`, loaded only when a log on a server is opened, and what this backend needs of it: calls that
 * end, one way or the other, and a connection that is made anew where one was lost.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { clearTimeout, setTimeout } from "node:timers";
import { ThreadlogError } from "../../log/errors.ts";
import { isLost, isUnsent, isUseless, NoAnswer } from "./failures.ts";

/** What is bound to a statement. Objects become JSON. */
export type Parameter = string | number | boolean | Uint8Array | object | null;

/** A row, by column name. */
export type Row = Readonly<Record<string, unknown>>;

/** A pool of connections, as the package has it. */
interface Pool {
  unsafe(text: string, parameters: readonly Parameter[], options: { readonly prepare: boolean }): Promise<Row[]>;
  end(options: { readonly timeout: number }): Promise<void>;
}

type MakePool = (url: string, options: object) => Pool;

const CONNECT_SECONDS = 10;
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

/** Connections to one server that are used alike. */
export class Connections {
  readonly #make: () => Pool;
  readonly #answerMs: number;
  #pool: Pool;

  /** Connects with the first call. */
  constructor(make: MakePool, url: string, max: number, answerMs: number) {
    this.#make = () =>
      make(url, {
        max,
        // No catalogue of types: each of ours is known.
        fetch_types: false,
        types: TYPES,
        connect_timeout: CONNECT_SECONDS,
        backoff: BACKOFF_SECONDS,
        onnotice: () => {},
        connection: { application_name: "threadlog" },
      });
    this.#answerMs = answerMs;
    this.#pool = this.#make();
  }

  /**
   * Runs one statement in one round trip. (The first time on a connection the driver asks for the types first.)
   * A failure tells whether it may have been carried out: see failures.ts.
   */
  async run(text: string, parameters: readonly Parameter[] = []): Promise<Row[]> {
    while (true) {
      const pool = this.#pool;
      try {
        return await this.#answer(pool.unsafe(text, parameters, { prepare: true }));
      } catch (error) {
        // Another call has given the connections up before this one was sent.
        if (isUnsent(error) && pool !== this.#pool) continue;
        if (isUseless(error) && pool === this.#pool) {
          this.#pool = this.#make();
          pool.end({ timeout: 0 }).catch(() => {});
        }
        throw error;
      }
    }
  }

  /** The answer, if it comes: a connection may be silent for as long as it likes. */
  async #answer<T>(asked: Promise<T>): Promise<T> {
    const silence = Promise.withResolvers<never>();
    const timer = setTimeout(() => silence.reject(new NoAnswer(this.#answerMs)), this.#answerMs);
    try {
      return await Promise.race([asked, silence.promise]);
    } finally {
      clearTimeout(timer);
    }
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
    await this.#pool.unsafe(text, [], { prepare: false });
  }

  async close(): Promise<void> {
    await this.#pool.end({ timeout: 5 });
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
