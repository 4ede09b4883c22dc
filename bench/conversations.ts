/**
 * Conversations to be kept: the real ones, where they are, else made ones of the same shape.
 *
 * @module
 */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { randoms, text } from "./payloads.ts";
import { ROOT } from "./tools.ts";

/** A conversation. */
export interface Conversation {
  readonly id: string;
  readonly messages: readonly Record<string, unknown>[];
}

/** Where they came from, for the names of cases. */
export type Origin = "real" | "made";

const COUNT = 150;

/**
 * All conversations: of the file that `THREADLOG_BENCH_THREADS` names, or of that beside this repository; a line each,
 * `{ "id": "...", "messages": [...] }`.
 */
export function conversations(): { readonly origin: Origin; readonly threads: readonly Conversation[] } {
  const file = process.env.THREADLOG_BENCH_THREADS ?? join(ROOT, "../shared/data/agent_threads.jsonl");
  if (!existsSync(file)) return { origin: "made", threads: Array.from({ length: COUNT }, (_, i) => made(i)) };
  const lines = readFileSync(file, "utf8").split("\n").filter((line) => line !== "");
  return { origin: "real", threads: lines.map((line) => JSON.parse(line)) };
}

/** The bytes of the messages, as JSON. */
export function contentBytes(threads: readonly Conversation[]): number {
  let bytes = 0;
  for (const { messages } of threads) {
    for (const message of messages) bytes += new TextEncoder().encode(JSON.stringify(message)).length;
  }
  return bytes;
}

/** The system prompt is the same in all, as it is in the real ones. */
const PROMPT = text(6000, randoms(1));

/** 6 to 62 messages, 24 in the middle: short ones of people, longer ones of the model, answers of tools. */
function made(index: number): Conversation {
  // Far apart: what follows a small seed begins with small numbers.
  const random = randoms(Math.imul(index + 2, 0x9e3779b1));
  const length = 6 + Math.floor(57 * random() ** 1.7);
  const messages: Record<string, unknown>[] = [{ role: "system", content: PROMPT }];
  while (messages.length < length) {
    const call = `call_${text(24, random).replaceAll(" ", "x")}`;
    messages.push({ role: "user", content: text(60 + 150 * random(), random) });
    messages.push({ role: "assistant", content: null, tool_calls: [toolCall(call, random)] });
    messages.push({ role: "tool", tool_call_id: call, name: "look_up", content: text(300 + 900 * random(), random) });
    messages.push({ role: "assistant", content: text(150 + 350 * random(), random) });
  }
  return { id: `made/${index}`, messages: messages.slice(0, length) };
}

function toolCall(id: string, random: () => number): Record<string, unknown> {
  const name = text(8, random);
  return { id, type: "function", function: { name: "look_up", arguments: JSON.stringify({ name }) } };
}
