/**
 * Conversations in a JSONL file: `{id, messages: [...]}`, one a line.
 *
 * @module
 */

import { createReadStream, statSync } from "node:fs";

/** A conversation, with the line that it stood on. */
export interface Conversation {
  readonly line: number;
  readonly id: string;
  readonly messages: readonly object[];
}

/** The file, or a line of it, can't be used; the message names it. */
export class InputError extends Error {
  /** The class name, for logs. */
  override readonly name = "InputError";
}

/** No line is longer: the largest value that a log takes by default. */
const MAX_LINE_BYTES = 64 << 20;
const LINE_FEED = 10;

/** Reads a file's conversations one by one, however large it is. Blank lines count, and are passed over. */
export async function* readConversations(file: string): AsyncGenerator<Conversation> {
  const seen = new Map<string, number>();
  for await (const { line, text } of linesOf(file)) {
    if (text.trim() === "") continue;
    const { id, messages } = parseLine(text, line);
    const earlier = seen.get(id);
    if (earlier !== undefined) throw bad(line, `the id ${JSON.stringify(id)} is that of line ${earlier}, too`);
    seen.set(id, line);
    yield { line, id, messages };
  }
  if (seen.size === 0) throw new InputError(`${file} holds no conversation: one is expected on each line`);
}

/** An error that names a line. */
export function bad(line: number, what: string): InputError {
  return new InputError(`Line ${line}: ${what}`);
}

function parseLine(text: string, line: number): { id: string; messages: object[] } {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw bad(line, `not JSON (${(error as Error).message})`);
  }
  if (!isObject(parsed)) throw bad(line, `expected {"id": ..., "messages": [...]}, found ${kind(parsed)}`);
  const { id, messages } = parsed as { id?: unknown; messages?: unknown };
  if (typeof id !== "string") throw bad(line, `"id" must be a string, found ${kind(id)}`);
  if (!Array.isArray(messages)) throw bad(line, `"messages" must be a list, found ${kind(messages)}`);
  const odd = messages.findIndex((message) => !isObject(message));
  if (odd >= 0) throw bad(line, `messages[${odd}] must be an object, found ${kind(messages[odd])}`);
  return { id, messages };
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function kind(value: unknown): string {
  if (value === undefined) return "nothing";
  return value === null ? "null" : Array.isArray(value) ? "a list" : `a value of type ${typeof value}`;
}

/** Splits at line feeds only: JSON strings may hold every other kind of line end. */
async function* linesOf(file: string): AsyncGenerator<{ line: number; text: string }> {
  checkFile(file);
  let line = 1;
  let parts: Uint8Array[] = [];
  let bytes = 0;
  const keep = (part: Uint8Array) => {
    bytes += part.length;
    if (bytes > MAX_LINE_BYTES) throw bad(line, `longer than ${MAX_LINE_BYTES} bytes`);
    parts.push(part);
  };
  for await (const chunk of createReadStream(file) as AsyncIterable<Uint8Array>) {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
      keep(chunk.subarray(start, end));
      yield { line, text: decode(parts, line) };
      line++;
      start = end + 1;
      parts = [];
      bytes = 0;
    }
    keep(chunk.subarray(start));
  }
  if (bytes > 0) yield { line, text: decode(parts, line) };
}

function checkFile(file: string): void {
  let isFile: boolean;
  try {
    isFile = statSync(file).isFile();
  } catch (error) {
    throw new InputError(`${file} can't be read (${(error as NodeJS.ErrnoException).code ?? String(error)})`);
  }
  if (!isFile) throw new InputError(`${file} is not a file: it is read twice, so a stream or a folder won't do`);
}

function decode(parts: readonly Uint8Array[], line: number): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(parts));
  } catch {
    throw bad(line, "not UTF-8");
  }
}
