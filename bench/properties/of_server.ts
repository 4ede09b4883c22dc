import { ThreadlogSaver, ThreadlogStore } from "../../adapters/langgraph/mod.ts";
import { type Log, openLog } from "../../mod.ts";
import { TcpProxy } from "../../tests/support/tcp_proxy.ts";
import { interleave, median, type Row, type Scale, throughput } from "../measure.ts";
import { Run } from "../savers.ts";
import { count, counted, flat, type Group } from "./group.ts";

const TRIPS = "PostgreSQL: round trips of";
const PUT_FEW = "put, 5 channels";
const PUT_MANY = "put, 100 channels";
const PUT_WRITES = "putWrites of 20";
const GET_WARM = "getTuple, in memory";
const GET_COLD = "getTuple, cold";
const GET_WRITES = "getTuple, cold, with a task's writes";
const STORE_GET = "store.get, cold";
const STORE_PUT = "store.put";
const FEW_PUTS = "batch of 10 puts, a new namespace";
const MANY_PUTS = "batch of 100 puts, a new namespace";
const KNOWN_PUTS = "batch of 100 puts, a known namespace";
const FEW_GETS = "batch of 10 gets, cold";
const MANY_GETS = "batch of 100 gets, cold";
const OPEN = "PostgreSQL: getTuple, cold, while";
const NO_LIST = "no list is open";
const A_LIST = "a list is open";
const AGENTS = "PostgreSQL: puts of agents at once";
const ONE = "1 agent";
const EIGHT = "8 agents";

/** Over PostgreSQL: what takes one round trip does, and nobody waits for somebody else's. */
export const ofServer: Group = {
  bars: [
    counted("a put is one trip", TRIPS, PUT_FEW, 1),
    flat("whatever the channel count", TRIPS, PUT_FEW, PUT_MANY, 1),
    counted("putWrites is one", TRIPS, PUT_WRITES, 1),
    counted("getTuple of what is in memory is none", TRIPS, GET_WARM, 0),
    counted("a cold getTuple is one", TRIPS, GET_COLD, 1),
    counted("a cold get of the store is one", TRIPS, STORE_GET, 1),
    counted("a put of the store is one", TRIPS, STORE_PUT, 1),
    counted("a batch of puts is one, in a namespace that is in memory", TRIPS, KNOWN_PUTS, 1),
    flat("a batch of puts is constant, in a new one", TRIPS, FEW_PUTS, MANY_PUTS, 1),
    flat("a batch of gets is constant", TRIPS, FEW_GETS, MANY_GETS, 1),
    flat("getTuple does not wait for a list, over PostgreSQL", OPEN, NO_LIST, A_LIST),
    { property: "8 agents put more than one does", case: AGENTS, side: EIGHT, base: ONE, atLeast: 2 },
  ],
  run,
};

interface Server {
  readonly url: string;
  end(): Promise<void>;
}

async function run(scale: Scale): Promise<Row[]> {
  const { startPostgres } = await import(new URL("../../tests/support/postgres.mjs", import.meta.url).href) as {
    startPostgres(): Promise<Server | { readonly url?: undefined; readonly reason: string }>;
  };
  const server = await startPostgres();
  if (server.url === undefined) {
    console.log(server.reason);
    return [];
  }
  const { proxy, url } = await TcpProxy.before(server.url);
  try {
    return await measure(proxy, url, scale);
  } finally {
    await proxy.close();
    await server.end();
  }
}

/** Threads and namespaces that are there to be read cold: each is read once by a log that never saw it. */
const COLD = 24;
const COUNTED = 5;
/** Before it is counted: a statement is prepared anew on each connection. */
const WARMUP = 4;

async function measure(proxy: TcpProxy, url: string, scale: Scale): Promise<Row[]> {
  await using log = await openLog(url);
  const writer = new ThreadlogSaver(log);
  const store = new ThreadlogStore(log);
  // All at once, so that they share transactions.
  await Promise.all(Array.from({ length: COLD }, async (_, i) => {
    await runOf(writer, `plain ${i}`).put(channels(5, i));
    const run = runOf(writer, `written ${i}`);
    await run.put(channels(5, i));
    await run.putWrites(0);
  }));
  await store.batch(Array.from({ length: COLD }, (_, i) => items(`cold ${i}`, 1)).flat());
  await store.batch(Array.from({ length: COLD }, (_, i) => items(`cold ${i}`, 100)).flat());
  await using reading = await openLog(url);
  const rows = await trips(proxy, { log, reading });
  rows.push(...await besideList(url, scale));
  rows.push(...await agents(log, scale));
  return rows;
}

async function trips(proxy: TcpProxy, { log, reading }: { readonly log: Log; readonly reading: Log }): Promise<Row[]> {
  const [writer, reader] = [new ThreadlogSaver(log), new ThreadlogSaver(reading)];
  const [store, cold] = [new ThreadlogStore(log), new ThreadlogStore(reading)];
  const few = runOf(writer, "few");
  const many = runOf(writer, "many");
  const latest = (kind: string) => (i: number) => reader.getTuple({ configurable: { thread_id: `${kind} ${i}` } });
  const gets = (from: number, length: number) => (i: number) =>
    cold.batch(items(`cold ${from + i}`, length).map(({ namespace, key }) => ({ namespace, key })));
  const calls: Record<string, (index: number) => Promise<unknown>> = {
    [PUT_FEW]: (i) => few.put(channels(5, i), i + 1),
    [PUT_MANY]: (i) => many.put(channels(100, i), i + 1),
    [PUT_WRITES]: (i) => writer.putWrites(configOf(few), writes(20), `task ${i}`),
    [GET_WARM]: () => few.latest(),
    [GET_COLD]: latest("plain"),
    [GET_WRITES]: latest("written"),
    [STORE_GET]: (i) => cold.get(["cold 0"], `k${i}`),
    [STORE_PUT]: (i) => store.put(["puts"], `k${i}`, { i }),
    [FEW_PUTS]: (i) => store.batch(items(`few ${i}`, 10)),
    [MANY_PUTS]: (i) => store.batch(items(`many ${i}`, 100)),
    [KNOWN_PUTS]: (i) => store.batch(items("known", 100).map((item) => ({ ...item, key: `${i} ${item.key}` }))),
    [FEW_GETS]: gets(1, 10),
    [MANY_GETS]: gets(1 + WARMUP + COUNTED, 100),
  };
  const rows: Row[] = [];
  for (const [name, call] of Object.entries(calls)) {
    const counts: number[] = [];
    for (let i = 0; i < WARMUP + COUNTED; i++) {
      const before = proxy.trips;
      await call(i);
      if (i >= WARMUP) counts.push(proxy.trips - before);
    }
    // The median: now and then a log looks whether there is something new.
    rows.push(count(TRIPS, name, median(counts)));
  }
  return rows;
}

/** Through a log of its own each: else the list would be open for both sides. */
async function besideList(url: string, { round }: Scale): Promise<Row[]> {
  await using alone = await openLog(url);
  await using listing = await openLog(url);
  const latest = (log: Log) => {
    const saver = new ThreadlogSaver(log);
    return (i: number) => saver.getTuple({ configurable: { thread_id: `written ${i % COLD}` } });
  };
  const list = new ThreadlogSaver(listing).list({ configurable: { thread_id: "plain 0" } });
  await list.next();
  const sides = [{ name: NO_LIST, op: latest(alone) }, { name: A_LIST, op: latest(listing) }];
  const rows = await interleave(sides, { case: OPEN, warmup: 8, calls: COLD - 8, block: 4, round });
  await list.return(undefined);
  return rows;
}

async function agents(log: Log, { quick }: Scale): Promise<Row[]> {
  const saver = new ThreadlogSaver(log);
  const rows: Row[] = [];
  for (const [side, agents] of [[ONE, 1], [EIGHT, 8]] as const) {
    const runs = Array.from({ length: agents }, (_, i) => runOf(saver, `agent ${agents} ${i}`));
    const puts = (quick ? 50 : 400) * agents;
    const rate = await throughput(agents, puts, (agent, i) => runs[agent]!.put(channels(5, i), i + 1));
    rows.push({ case: AGENTS, side, unit: "ops/s", p50: rate });
  }
  return rows;
}

function runOf(saver: ThreadlogSaver, thread: string): Run {
  return new Run({ name: "Threadlog", saver, close: () => {} }, thread);
}

function configOf(run: Run) {
  return { configurable: { thread_id: "few", checkpoint_ns: "", checkpoint_id: run.newest } };
}

function channels(count: number, at: number): Record<string, unknown> {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`channel-${i}`, { at, text: "x".repeat(120) }]));
}

function writes(count: number): [string, unknown][] {
  return Array.from({ length: count }, (_, i) => [`channel-${i}`, { text: "y".repeat(120) }]);
}

function items(namespace: string, count: number) {
  return Array.from({ length: count }, (_, i) => ({ namespace: [namespace], key: `k${i}`, value: { i } }));
}
