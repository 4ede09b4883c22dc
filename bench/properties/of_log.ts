import { type Log, openLog, type Thread } from "../../mod.ts";
import { ThreadlogSaver, ThreadlogStore } from "../../adapters/langgraph/mod.ts";
import { withFolder } from "../files.ts";
import { type Row, type Scale, summary } from "../measure.ts";
import { Run } from "../savers.ts";
import { count, counted, flat, type Group } from "./group.ts";

const WOKEN = "an event reaches subscribers that want it, each of";
const BESIDE = "an event reaches its one subscriber, beside";
const FEW = "10 subscribers";
const MANY = "1,000 subscribers";
const FEW_OTHERS = "10 others";
const MANY_OTHERS = "1,000 others";
const WAITING = "an append, each of so many that wait at once";
const FEW_APPENDS = "64 appends";
const MANY_APPENDS = "4,096 appends";
const TEXT = "JSON.stringify, in 100 rounds";
const LOG = "of put, get, append with expect, update, at";
const SAVER = "of the checkpointer's put, putWrites, getTuple";
const STORE = "of the store's put, get, search";

/** The log itself: whoever waits is woken at the cost of one, and nothing is put into words that nobody reads. */
export const ofLog: Group = {
  bars: [
    flat("waking a subscriber costs the same among many", WOKEN, FEW, MANY),
    flat("an event costs nothing for those it is not for", BESIDE, FEW_OTHERS, MANY_OTHERS),
    flat("waking an append's caller costs the same among many", WAITING, FEW_APPENDS, MANY_APPENDS),
    counted("nothing is stringified on the way to success", TEXT, LOG, 0),
    counted("nor by the checkpointer", TEXT, SAVER, 0),
    counted("nor by the store (it names operations, to find equal ones)", TEXT, STORE, 0),
  ],
  run,
};

async function run({ quick }: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  const calls = quick ? 12 : 300;
  await withFolder(async (path) => {
    for (const [side, others, subscribers] of [[FEW, FEW_OTHERS, 10], [MANY, MANY_OTHERS, 1000]] as const) {
      for (const [name, who, wanted] of [[WOKEN, side, subscribers], [BESIDE, others, 1]] as const) {
        await using log = await openLog(path(`${name} ${subscribers}.db`), { durability: "normal" });
        const samples = await wake(log, subscribers, wanted, calls);
        rows.push(summary(name, who, "us", samples.map((us) => us / wanted)));
      }
    }
    await using log = await openLog(path("appends.db"), { durability: "normal" });
    for (const [side, size] of [[FEW_APPENDS, 64], [MANY_APPENDS, 4096]] as const) {
      rows.push(summary(WAITING, side, "us", await burst(log, size, quick ? 4 : 40)));
    }
  });
  return [...rows, ...await words()];
}

/**
 * How long it takes from an append until all who want the event have it, and the others sleep again. They come first:
 * what they do is done before the last one is woken.
 */
async function wake(log: Log, subscribers: number, wanted: number, calls: number): Promise<Float64Array> {
  const leaving = new AbortController();
  let arrived = 0;
  let all = Promise.withResolvers<void>();
  const follow = async (prefix: string) => {
    for await (const _ of log.subscribe({ prefix, signal: leaving.signal })) {
      if (++arrived % wanted === 0) all.resolve();
    }
  };
  const following = Array.from(
    { length: subscribers },
    (_, i) => follow(i < subscribers - wanted ? "others" : "wanted"),
  );
  const samples = new Float64Array(calls);
  for (let i = -4; i < calls; i++) {
    all = Promise.withResolvers<void>();
    const start = performance.now();
    await log.thread("wanted").append("happened", i);
    await all.promise;
    if (i >= 0) samples[i] = (performance.now() - start) * 1000;
  }
  leaving.abort();
  await Promise.all(following);
  return samples;
}

async function burst(log: Log, size: number, calls: number): Promise<Float64Array> {
  const samples = new Float64Array(calls);
  for (let i = -2; i < calls; i++) {
    const start = performance.now();
    await Promise.all(Array.from({ length: size }, (_, writer) => log.thread(`n${writer % 64}`).put("k", writer)));
    if (i >= 0) samples[i] = (performance.now() - start) * 1000 / size;
  }
  return samples;
}

interface Counter {
  a: { n: number };
}

/** How often something is turned into text where nothing fails: an error's words, a name for a map. */
async function words(): Promise<Row[]> {
  await using log = await openLog(":memory:");
  const thread = log.thread<Counter>(["users", "42"]);
  const store = new ThreadlogStore(log);
  const run = new Run({ name: "Threadlog", saver: new ThreadlogSaver(log), close: () => {} });
  const rounds = async (op: (i: number) => Promise<unknown>) => {
    await op(0);
    const { stringify } = JSON;
    let calls = 0;
    JSON.stringify = ((...args: Parameters<typeof stringify>) => (calls++, stringify(...args))) as typeof stringify;
    try {
      for (let i = 1; i <= 100; i++) await op(i);
    } finally {
      JSON.stringify = stringify;
    }
    return calls;
  };
  return [
    count(TEXT, LOG, await rounds((i) => ofThread(thread, i))),
    count(TEXT, SAVER, await rounds((i) => ofRun(run, i))),
    count(TEXT, STORE, await rounds((i) => ofItems(store, i))),
  ];
}

async function ofThread(thread: Thread<Counter>, i: number): Promise<void> {
  await thread.put("a", { n: i });
  await thread.update("a", (draft) => void (draft.n = -i));
  await thread.append("seen", { i }, { expect: await thread.head() });
  await thread.get("a");
  await thread.at(1).get("a");
}

async function ofRun(run: Run, i: number): Promise<void> {
  await run.put({ messages: [{ content: "x".repeat(100), i }] }, i + 1);
  await run.putWrites(i);
  await run.latest();
}

async function ofItems(store: ThreadlogStore, i: number): Promise<void> {
  await store.put(["users", "42"], `k${i % 10}`, { i });
  await store.get(["users", "42"], "k0");
  await store.search(["users"], { limit: 5, filter: { i } });
}
