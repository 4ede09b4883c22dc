/**
 * The servers that a URL names, and which of them is the primary now.
 *
 * The driver can look for one itself, but has gone back to a server that had become a standby; so each server is asked.
 *
 * @module
 */

import { setTimeout as sleep } from "node:timers/promises";
import { isUnreachable } from "./failures.ts";

/** How often servers are asked while none is the primary, in milliseconds. */
const ASK_AGAIN_MS = 100;

/** None of the servers is the primary. */
export class NoPrimary extends Error {
  override readonly name = "NoPrimary";
  /** As the system has it of a server that can't be reached. */
  readonly code = "ECONNREFUSED";

  constructor(servers: number, cause: unknown) {
    super(`None of the ${servers} servers is a primary that answers`, { cause });
  }
}

/** Asks a server whether it is a standby; throws where it does not answer. */
export type Ask = (url: string) => Promise<boolean>;

/** A URL for each host of one: `postgres://user@a,b:5433/db` names two servers. */
export function urlsOf(url: string): string[] {
  const [, start = "", hosts = "", end = ""] = /^([^:]+:\/\/(?:[^@/]*@)?)([^/?]*)(.*)$/s.exec(url) ?? [];
  return hosts.includes(",") ? hosts.split(",").map((host) => `${start}${host}${end}`) : [url];
}

/** Finds the primary, and finds it again. */
export class Servers {
  /** One for each server. */
  readonly urls: readonly string[];
  readonly #ask: Ask;
  #primary: string | undefined;
  #looking: Promise<string> | undefined;

  constructor(urls: readonly string[], ask: Ask) {
    this.urls = urls;
    this.#ask = ask;
    if (urls.length === 1) this.#primary = urls[0];
  }

  /** Whether there is another server to turn to. */
  get areSeveral(): boolean {
    return this.urls.length > 1;
  }

  /** The primary. Where it is not known, all are asked, again and again for so many milliseconds. */
  primary(patienceMs: number): Promise<string> | string {
    // One search serves all who need it.
    return this.#primary ?? (this.#looking ??= this.#search(patienceMs).finally(() => this.#looking = undefined));
  }

  /** A server is not the primary any more, or does not answer. */
  lost(url: string): void {
    if (this.areSeveral && this.#primary === url) this.#primary = undefined;
  }

  async #search(patienceMs: number): Promise<string> {
    for (const deadline = performance.now() + patienceMs;;) {
      const answers = await Promise.allSettled(this.urls.map(this.#ask));
      const index = answers.findIndex((answer) => answer.status === "fulfilled" && !answer.value);
      if (index !== -1) return this.#primary = this.urls[index]!;
      // A wrong password stays wrong.
      const refusals = answers.flatMap((answer) => answer.status === "rejected" ? [answer.reason as unknown] : []);
      const lasting = refusals.find((reason) => !isUnreachable(reason));
      if (lasting !== undefined && refusals.length === answers.length) throw lasting;
      if (performance.now() > deadline) throw new NoPrimary(this.urls.length, refusals[0]);
      await sleep(ASK_AGAIN_MS);
    }
  }
}
