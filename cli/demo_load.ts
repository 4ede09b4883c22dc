/**
 * Loading conversations from a file, one thread each, and reading every version of every one back.
 *
 * @module
 */

import { statSync } from "node:fs";
import { basename, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { type Log, openLog, ThreadlogError } from "../mod.ts";
import { bad, type Conversation, readConversations } from "./conversations.ts";
import { count, paint, progress, row, say } from "./screen.ts";

/** Conversations that are written at the same time: their messages share transactions. */
const AT_ONCE = 64;
/** How many differences are shown. */
const SHOWN = 10;

interface Talk {
  messages: object[];
}

interface Loaded {
  conversations: number;
  threads: number;
  events: number;
  /** What it would take to keep every version whole, as JSON. */
  wholeBytes: number;
}

/** Loads a file into a log in a folder, reopens it and compares. Resolves to whether everything is equal. */
export async function load(source: string, folder: string): Promise<boolean> {
  const file = join(folder, "conversations.db");
  say(`Each conversation of ${basename(source)} becomes a thread, each message one event.`);
  const started = performance.now();
  const loaded = await withLog(file, (log) => append(source, log));
  const appended = performance.now();
  const bytes = sizeOf(file) + sizeOf(`${file}-wal`);

  // The file has been closed: all that is read from here on comes from the disk.
  const { prefixes, differences, report } = await withLog(file, async (log) => ({
    ...await compare(source, log),
    report: await log.verify(),
  }));
  const compared = performance.now();

  const seconds = (from: number, to: number) => ((to - from) / 1000).toFixed(1);
  const bytesIn = statSync(source).size;
  progress("");
  say();
  figure("conversations", count(loaded.conversations));
  figure(
    "threads",
    count(loaded.threads),
    loaded.threads < loaded.conversations ? "one without messages has none" : "",
  );
  figure("events", count(loaded.events));
  figure("prefixes verified", count(prefixes), "at(version), after reopening, held against the file");
  figure("bytes in", count(bytesIn));
  figure("bytes on disk", count(bytes), `as JSON, with every version kept whole: ${count(loaded.wholeBytes)}`);
  figure(
    "seconds",
    seconds(started, compared),
    `${seconds(started, appended)} to append durably, ${seconds(appended, compared)} to read back and compare`,
  );
  figure("hash chain", report.ok ? "ok" : "broken", `${count(report.events)} checked`);
  say();
  for (const difference of differences.slice(0, SHOWN)) row([7], ["differs", difference], ["red"]);
  if (differences.length > SHOWN) say(`   and ${count(differences.length - SHOWN)} more`);
  if (report.first !== undefined) row([7], ["broken", report.first.reason], ["red"]);
  const isEqual = differences.length === 0 && report.ok;
  say(
    isEqual
      ? paint("green", "Every prefix equals the messages that made it.")
      : paint("red", `${count(differences.length)} prefixes differ.`),
  );
  return isEqual;
}

function figure(name: string, amount: string, note = ""): void {
  row([18, 12], [name, amount.padStart(12), note], [undefined, "bold", "dim"]);
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** What `await using` does, for Node 22 too. */
async function withLog<Result>(file: string, use: (log: Log) => Promise<Result>): Promise<Result> {
  const log = await openLog(file);
  try {
    return await use(log);
  } finally {
    await log.close();
  }
}

async function append(source: string, log: Log): Promise<Loaded> {
  const loaded: Loaded = { conversations: 0, threads: 0, events: 0, wholeBytes: 0 };
  let group: Conversation[] = [];
  const flush = async () => {
    const outcomes = await Promise.allSettled(group.map((conversation) => store(log, conversation, loaded)));
    const failed = outcomes.find(({ status }) => status === "rejected");
    if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
    loaded.conversations += group.length;
    group = [];
    progress(`appended ${count(loaded.events)} messages`);
  };
  for await (const conversation of readConversations(source)) {
    group.push(conversation);
    if (group.length === AT_ONCE) await flush();
  }
  await flush();
  return loaded;
}

/** The list of messages is one key, grown by updates: version n of the thread is its first n messages. */
async function store(log: Log, { line, id, messages }: Conversation, loaded: Loaded): Promise<void> {
  let place = "the id";
  let bytes = 2;
  try {
    const thread = log.thread<Talk>(id);
    for (const [i, message] of messages.entries()) {
      place = `messages[${i}]`;
      await thread.update("messages", (draft) => {
        draft.push(message);
      }, { initial: [] });
      bytes += Buffer.byteLength(JSON.stringify(message)) + 1;
      loaded.wholeBytes += bytes;
      loaded.events++;
    }
    if (messages.length > 0) loaded.threads++;
  } catch (error) {
    if (error instanceof ThreadlogError) throw bad(line, `${place} was refused as ${error.code}: ${error.message}`);
    throw error;
  }
}

async function compare(source: string, log: Log): Promise<{ prefixes: number; differences: string[] }> {
  const differences: string[] = [];
  let prefixes = 0;
  for await (const { id, messages } of readConversations(source)) {
    const thread = log.thread<Talk>(id);
    const { version: head } = await thread.head();
    if (head !== messages.length) {
      differences.push(`${JSON.stringify(id)}: ${head} versions, ${messages.length} messages`);
    }
    for (let version = 1; version <= messages.length; version++) {
      const read = await thread.at(version).get("messages");
      if (isDeepStrictEqual(read, messages.slice(0, version))) prefixes++;
      else differences.push(`${JSON.stringify(id)} at version ${version}`);
    }
    progress(`compared ${count(prefixes)} prefixes`);
  }
  return { prefixes, differences };
}
