/**
 * The demo: `npm run demo`, or `npm run demo -- file.jsonl`. Runs on Bun, Deno and Node.
 *
 * @module
 */

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { InputError } from "./conversations.ts";
import { load } from "./demo_load.ts";
import { tour } from "./demo_tour.ts";
import { clip, paint, say } from "./screen.ts";

const USAGE = `Usage: npm run demo [-- [--keep] [file.jsonl]]

Without a file: an agent's conversation is written, killed, continued, replayed, compared, forked and verified.

With one: each line, {"id": "...", "messages": [{...}, ...]}, becomes a thread and each message one event. The log is
closed and opened again, and every prefix of every conversation is read back and compared.

  --keep    leave the folder with the log in place, and say where it is
  --help    show this

Exit code: 0 if everything was as promised, 1 if not or if the file can't be used, 2 for a wrong argument.`;

const MAX_MESSAGE = 600;

async function main(args: readonly string[]): Promise<number> {
  if (args.includes("--help") || args.includes("-h")) {
    say(USAGE);
    return 0;
  }
  const unknown = args.find((arg) => arg.startsWith("-") && arg !== "--keep");
  const files = args.filter((arg) => !arg.startsWith("-"));
  if (unknown !== undefined || files.length > 1) {
    console.error(unknown === undefined ? `One file at a time, not ${files.length}.` : `Unknown option ${unknown}.`);
    console.error(USAGE);
    return 2;
  }
  const keep = args.includes("--keep");
  const folder = mkdtempSync(join(tmpdir(), "threadlog-demo-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  if (!keep) removeAtExit(remove);
  try {
    return await run(files[0], folder);
  } finally {
    if (keep) say(`Kept in ${folder}`);
    else remove();
  }
}

async function run(file: string | undefined, folder: string): Promise<number> {
  if (file !== undefined) return await load(locate(file), folder) ? 0 : 1;
  const started = performance.now();
  say(paint("bold", "Threadlog: the state log under an agent"));
  await tour(folder);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  say();
  say(`Everything was as promised, in ${seconds} s on ${runtime()}. README.md has the tour of the API.`);
  return 0;
}

/** npm runs scripts in the package's folder; the file's path is meant from where npm was called. */
function locate(file: string): string {
  const { INIT_CWD } = process.env;
  return existsSync(file) || INIT_CWD === undefined ? file : resolve(INIT_CWD, file);
}

function removeAtExit(remove: () => void): void {
  process.once("exit", remove);
  process.once("SIGINT", () => process.exit(130));
  process.once("SIGTERM", () => process.exit(143));
}

function runtime(): string {
  const { bun, deno, node } = process.versions as Record<string, string | undefined>;
  return bun !== undefined ? `Bun ${bun}` : deno !== undefined ? `Deno ${deno}` : `Node ${node}`;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (error instanceof InputError) console.error(clip(error.message, MAX_MESSAGE));
  else console.error(error);
  process.exitCode = 1;
}
