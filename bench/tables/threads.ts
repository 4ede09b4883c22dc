import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { equal } from "../../log/equal.ts";
import type { Bar } from "../bars.ts";
import { contentBytes, type Conversation, conversations } from "../conversations.ts";
import { databaseBytes, withFolder } from "../files.ts";
import { interleave, type Row, type Scale, summary } from "../measure.ts";
import { checkpoint, idOf, METADATA } from "../payloads.ts";
import { type Contender, sqlite, threadlog } from "../savers.ts";

const STORED = "all threads, a checkpoint for each message: bytes";

/** What real threads must not exceed. */
export const THREADS_BARS: readonly Bar[] = [
  {
    property: "the file: twice the bytes of the messages",
    case: STORED,
    side: "Threadlog",
    base: "content",
    atMost: 2,
  },
];

/** A checkpoint of a conversation: `at` is its last message. */
interface Place {
  readonly conversation: Conversation;
  readonly at: number;
}

/** Real conversations through the checkpointers, a checkpoint for each message: bytes, put, and what can be read back. */
export async function threads({ round, quick }: Scale): Promise<Row[]> {
  const { origin, threads } = conversations();
  const rows: Row[] = [];
  const named = (name: string) => `${name} (${threads.length} ${origin} threads)`;
  const places = threads.flatMap((conversation) => conversation.messages.map((_, at) => ({ conversation, at })));
  await withFolder(async (path) => {
    const open = async (): Promise<Contender[]> => {
      const peer = await sqlite(path("sqlite.db"));
      return [await threadlog(path("log.db")), ...peer ? [peer] : []];
    };
    for (const { name, saver, close } of await open()) {
      const times = new Float64Array(places.length);
      for (const [i, place] of places.entries()) times[i] = await put(saver, place);
      rows.push(summary(named("put"), name, "us", times));
      await close();
      const bytes = databaseBytes(path(name === "Threadlog" ? "log.db" : "sqlite.db"));
      rows.push({ case: STORED, side: name, unit: "bytes", p50: bytes });
    }
    rows.push({ case: STORED, side: "content", unit: "bytes", p50: contentBytes(threads) });
    // Opened anew, so that the first reads of each thread are cold ones, as an app's are.
    const contenders = await open();
    const latest = sidesOf(contenders, (i) => {
      const conversation = threads[i % threads.length]!;
      return { conversation, at: conversation.messages.length - 1 };
    }, false);
    const calls = threads.length;
    rows.push(...await interleave(latest, { case: named("latest, cold"), warmup: 0, calls, block: 50, round }));
    const any = sidesOf(contenders, (i) => places[i * 7919 % places.length]!, true);
    const some = quick ? 600 : 3000;
    rows.push(...await interleave(any, { case: named("at(any)"), warmup: 0, calls: some, block: 50, round }));
    for (const { close } of contenders) await close();
  });
  return rows;
}

/** Puts the checkpoint of a message; resolves with how long it took. The app hands over what it holds. */
async function put(saver: BaseCheckpointSaver, { conversation, at }: Place): Promise<number> {
  const configurable = {
    thread_id: conversation.id,
    checkpoint_ns: "",
    checkpoint_id: at > 0 ? idOf(at - 1) : undefined,
  };
  const next = checkpoint(at, { messages: conversation.messages.slice(0, at + 1) }, at + 1);
  const start = performance.now();
  await saver.put({ configurable }, next, { ...METADATA, step: at }, { messages: at + 1 });
  return (performance.now() - start) * 1000;
}

/** Reads checkpoints, by id or as the newest; what comes back must be what was put. */
function sidesOf(contenders: readonly Contender[], placeOf: (index: number) => Place, byId: boolean) {
  return contenders.map(({ name, saver }) => ({
    name,
    op: async (i: number) => {
      const { conversation, at } = placeOf(i);
      const checkpoint_id = byId ? idOf(at) : undefined;
      const found = await saver.getTuple({ configurable: { thread_id: conversation.id, checkpoint_id } });
      const messages = found?.checkpoint.channel_values["messages"] as unknown[] | undefined;
      if (messages?.length !== at + 1) throw new Error(`not checkpoint ${at} of ${conversation.id}`);
      if (i % 16 === 0 && !equal(messages, conversation.messages.slice(0, at + 1))) throw new Error("other messages");
    },
  }));
}
