import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { equal } from "../../log/equal.ts";
import { msgpack } from "../../log/msgpack.ts";
import { ThreadlogSaver } from "../../adapters/langgraph/mod.ts";
import { conversations } from "../conversations.ts";
import { type Version, type Way, ways } from "../deltas.ts";
import { interleave, type Row, type Scale } from "../measure.ts";
import { checkpoint, METADATA, randoms, text } from "../payloads.ts";

/** Values that follow each other, of one thread. */
type History = readonly Version[];

/** What is stored of a history, and how to come to each of its values. */
interface Stored {
  readonly bytes: number;
  readonly chains: readonly { readonly whole: Uint8Array; readonly deltas: readonly Uint8Array[] }[];
}

/** Of the conversation that LangGraph keeps, and changes to the text. */
const TURNS = 50;

/** The ways to make a delta: bytes stored, from a value to them, and from them to a value. */
export async function deltas({ round, quick }: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  const all = await ways();
  for (const [name, histories] of Object.entries(await workloads(quick))) {
    const steps = histories.flatMap((history) => history.slice(1).map((next, i) => ({ before: history[i]!, next })));
    const stored = all.map((way) => histories.map((history) => store(way, history)));
    const spread = Math.max(1, Math.floor(steps.length / (quick ? 16 : 160)));
    const values = histories.flatMap((history, h) => history.map((version, v) => ({ h, v, version })))
      .filter((_, i) => i % spread === spread - 1);
    all.forEach((way, at) => {
      rows.push({
        case: `${name}: stored`,
        side: way.name,
        unit: "bytes",
        p50: stored[at]!.reduce((sum, { bytes }) => sum + bytes, 0),
      });
      for (const { h, v, version } of values) {
        const { whole, deltas } = stored[at]![h]!.chains[v]!;
        if (!equal(way.read(whole, deltas), version.value)) throw new Error(`${way.name} gives another value back`);
      }
    });
    const puts = all.map((way) => ({
      name: way.name,
      op: (i: number) => {
        const { before, next } = steps[i % steps.length]!;
        return way.make(before, next.value);
      },
    }));
    const few = { warmup: 20, calls: Math.min(steps.length, quick ? 200 : 2000), block: 20, round };
    rows.push(...await interleave(puts, { case: `${name}: put`, ...few }));
    const reads = all.map((way, at) => ({
      name: way.name,
      op: (i: number) => {
        const { h, v } = values[i * 7919 % values.length]!;
        const { whole, deltas } = stored[at]![h]!.chains[v]!;
        return way.read(whole, deltas);
      },
    }));
    const calls = quick ? 16 : 160;
    rows.push(...await interleave(reads, { case: `${name}: cold read`, warmup: 2, calls, block: 8, round }));
  }
  return rows;
}

function store(way: Way, history: History): Stored {
  const links = history.map(({ value }, i) => {
    return i === 0 ? { isWhole: true, bytes: encodeFirst(way, value) } : way.make(history[i - 1]!, value);
  });
  let start = 0;
  const chains = links.map(({ isWhole, bytes }, i) => {
    if (isWhole) start = i;
    return { whole: isWhole ? bytes : links[start]!.bytes, deltas: links.slice(start + 1, i + 1).map(bytesOf) };
  });
  return { bytes: links.reduce((sum, { bytes }) => sum + bytes.length, 0), chains };
}

function bytesOf({ bytes }: { readonly bytes: Uint8Array }): Uint8Array {
  return bytes;
}

/** The first value has none before it. A way that keeps all whole still does so in its own manner. */
function encodeFirst(way: Way, value: unknown): Uint8Array {
  const made = way.make({ value: null, bytes: msgpack.encode(null) }, value);
  return made.isWhole ? made.bytes : msgpack.encode(value);
}

async function workloads(quick: boolean): Promise<Record<string, readonly History[]>> {
  const { origin, threads } = conversations();
  const some = quick ? threads.filter((_, i) => i % 10 === 0) : threads;
  const grown = some.map(({ messages }) => messages.map((_, i) => ({ type: "json", value: messages.slice(0, i + 1) })));
  const saved = await savedByGraph(TURNS, TURNS);
  const window = await savedByGraph(TURNS, 8);
  return {
    [`${some.length} ${origin} conversations`]: grown.map(versionsOf),
    [`LangGraph, ${TURNS} messages of 2 KB`]: [versionsOf(saved.channel)],
    "LangGraph, a window of 8": [versionsOf(window.channel)],
    "LangGraph, the checkpoints themselves": [versionsOf(saved.checkpoints)],
    "a text of 16 KB, a word changed": [versionsOf(edits())],
  };
}

/** As if each had come from the app: no two share a part. */
function versionsOf(values: readonly unknown[]): History {
  return values.map((value) => {
    const bytes = msgpack.encode(value);
    return { value: msgpack.decode(bytes), bytes };
  });
}

/** What ThreadlogSaver has put into its log after some turns: the values of the channel, and the checkpoints. */
async function savedByGraph(turns: number, window: number) {
  await using saver = await ThreadlogSaver.open(":memory:");
  const random = randoms(42);
  const messages: BaseMessage[] = [];
  let config = { configurable: { thread_id: "t", checkpoint_ns: "" } };
  for (let turn = 0; turn < turns; turn++) {
    const fields = { id: `message-${turn}`, content: text(2000, random) };
    messages.push(turn % 2 === 0 ? new HumanMessage(fields) : new AIMessage(fields));
    const channels = { messages: messages.slice(-window), step: turn, "branch:to:agent": null };
    const next = checkpoint(turn, channels, turn + 1);
    config = await saver.put(config, next, { ...METADATA, step: turn }, next.channel_versions) as typeof config;
  }
  const channel: unknown[] = [];
  const { version } = await saver.channels(config).head();
  for (let v = 1; v <= version; v++) channel.push(await saver.channels(config).at(v).get("messages"));
  const checkpoints: unknown[] = [];
  for await (const { value } of saver.thread(config).entries()) checkpoints.push(value);
  return { channel, checkpoints };
}

/** A draft that an agent works on. */
function edits(): unknown[] {
  const random = randoms(7);
  let draft = text(16_000, random);
  return Array.from({ length: TURNS }, (_, i) => {
    const at = Math.floor(random() * 15_000);
    draft = draft.slice(0, at) + text(6, random) + draft.slice(at + 5);
    return { type: "json", value: { title: "draft", revision: i, draft } };
  });
}
