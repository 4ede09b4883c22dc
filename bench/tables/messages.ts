import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { JsonPlusSerializer } from "@langchain/langgraph-checkpoint";
import { ThreadlogSaver } from "../../adapters/langgraph/mod.ts";
import { dump } from "../../adapters/langgraph/value_codec.ts";
import type { Bar } from "../bars.ts";
import { withFolder } from "../files.ts";
import { interleave, type Row, type Scale, summary } from "../measure.ts";
import { randoms, text } from "../payloads.ts";
import { Run } from "../savers.ts";

const FEW = "10 messages";
const MANY = "1,000 messages";
/** Short threads are several, used in turn, so that none of them grows long meanwhile. */
const SIZES = [{ name: FEW, length: 10, threads: 50 }, { name: MANY, length: 1000, threads: 1 }];

/** With LangGraph's serializer Threadlog writes its values itself; with any other, it asks that one. */
const WALKED = { put: "put", part: "of it, the walk in the serializer's place", rest: "put beyond the walk" };
const ASKED = {
  put: "put, an app's serializer",
  part: "of it, the serializer",
  rest: "put beyond an app's serializer",
};
const REVIVED = "LangGraph's serializer, alone, reading";
const LATEST = "latest of";
const ANY = "at(any) of";

/** What an append to a long list must not cost. */
export const MESSAGES_BARS: readonly Bar[] = [
  { property: "a message more, beyond the walk", case: WALKED.rest, side: MANY, base: FEW, atMost: 2 },
  { property: "a message more, beyond the serializer", case: ASKED.rest, side: MANY, base: FEW, atMost: 2 },
];

/** An app's serializer, which knows how long it took. */
class Serializer extends JsonPlusSerializer {
  spent = 0;

  override async dumpsTyped(value: unknown): Promise<[string, Uint8Array]> {
    const start = performance.now();
    const dumped = super.dumpsTyped(value);
    this.spent += performance.now() - start;
    return await dumped;
  }
}

/** What a message more costs where there are few and where there are many, and how much of it is the serializer's. */
export async function messages({ round, quick }: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  const plan = { warmup: quick ? 30 : 50, calls: quick ? 40 : 400, block: 10, round };
  const serializer = new JsonPlusSerializer();
  await withFolder(async (path) => {
    await using saver = await ThreadlogSaver.open(path("walked.db"), { durability: "normal" });
    const sizes = await primed(saver);
    const walk = (thread: Growing) => {
      const start = performance.now();
      dump(serializer, thread.list);
      return performance.now() - start;
    };
    rows.push(...await puts(sizes, WALKED, plan, { begin: () => {}, part: walk }));
    const texts = new Map<Growing, Uint8Array>();
    for (const thread of sizes.flatMap(({ threads }) => threads)) {
      texts.set(thread, (await serializer.dumpsTyped(thread.list))[1]);
    }
    const times = async (name: string, op: (thread: Growing, index: number) => unknown) => {
      const sides = sizes.map(({ name, threads }) => ({
        name,
        op: (i: number) => op(threads[i % threads.length]!, i),
      }));
      rows.push(...await interleave(sides, { case: name, ...plan }));
    };
    await times(REVIVED, (thread) => serializer.loadsTyped("json", texts.get(thread)!));
    await times(LATEST, ({ run }) => run.latest());
    await times(ANY, ({ run }, i) => run.at(i * 7 % run.count));
  });
  await withFolder(async (path) => {
    const serde = new Serializer();
    await using saver = await ThreadlogSaver.open(path("asked.db"), { durability: "normal", serde });
    const parts = { begin: () => void (serde.spent = 0), part: () => serde.spent };
    rows.push(...await puts(await primed(saver), ASKED, plan, parts));
  });
  return rows;
}

interface Size {
  readonly name: string;
  readonly threads: readonly Growing[];
}

async function primed(saver: ThreadlogSaver): Promise<Size[]> {
  const contender = { name: "Threadlog", saver, close: () => {} };
  const sizes = SIZES.map(({ name, length, threads }) => ({
    name,
    threads: Array.from({ length: threads }, (_, i) => new Growing(new Run(contender, `${name} ${i}`), length)),
  }));
  for (const { threads } of sizes) for (const thread of threads) await thread.grow();
  return sizes;
}

/** Puts, and how much of each was a part of it, in milliseconds: measured at once, so that noise falls on both. */
async function puts(
  sizes: readonly Size[],
  names: { readonly put: string; readonly part: string; readonly rest: string },
  { warmup, calls, block }: { readonly warmup: number; readonly calls: number; readonly block: number },
  { begin, part }: { readonly begin: () => void; readonly part: (thread: Growing) => number },
): Promise<Row[]> {
  const samples = sizes.map(() => ({ put: new Float64Array(calls), part: new Float64Array(calls) }));
  for (let from = -warmup; from < calls; from += block) {
    for (const [side, { threads }] of sizes.entries()) {
      for (let i = from; i < Math.min(from + block, calls); i++) {
        const thread = threads[(i + warmup) % threads.length]!;
        begin();
        const start = performance.now();
        await thread.grow();
        const took = performance.now() - start;
        if (i < 0) continue;
        samples[side]!.put[i] = took * 1000;
        samples[side]!.part[i] = part(thread) * 1000;
      }
    }
  }
  return sizes.flatMap(({ name }, side) => {
    const { put, part } = samples[side]!;
    return [
      summary(names.put, name, "us", put),
      summary(names.part, name, "us", part),
      summary(names.rest, name, "us", put.map((us, i) => us - part[i]!)),
    ];
  });
}

/** A thread that gets a message more each time. The others are the same objects, as an app's reducer leaves them. */
class Growing {
  readonly run: Run;
  readonly list: BaseMessage[];

  constructor(run: Run, length: number) {
    this.run = run;
    this.list = Array.from({ length: length - 1 }, (_, i) => messageOf(i));
  }

  grow(): Promise<unknown> {
    this.list.push(messageOf(this.list.length));
    return this.run.put({ messages: this.list.slice() }, this.run.count + 1);
  }
}

function messageOf(index: number): BaseMessage {
  const fields = { id: `message-${index}`, content: text(200, randoms(index + 1)) };
  return index % 2 === 0 ? new HumanMessage(fields) : new AIMessage(fields);
}
