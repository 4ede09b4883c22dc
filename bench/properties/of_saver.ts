import { ThreadlogSaver } from "../../adapters/langgraph/mod.ts";
import { below, checkpointsPath, keyOf } from "../../adapters/langgraph/address.ts";
import { type Log, openLog } from "../../mod.ts";
import { withFolder } from "../files.ts";
import { interleave, type Row, type Scale } from "../measure.ts";
import { idOf } from "../payloads.ts";
import { type Contender, Run, threadlog } from "../savers.ts";
import { count, flat, type Group, turns } from "./group.ts";

const OPEN = "getTuple, while";
const NO_LIST = "no list is open";
const A_LIST = "a list is open";
const TASK = "putWrites of a task, beside";
const READ = "pending writes of one task, among";
const FEW_TASKS = "10 tasks";
const MANY_TASKS = "1,000 tasks";
const ELSEWHERE = "getTuple, where the checkpoint before has";
const CHANNELS = "put of one changed channel, beside";
const FEW_CHANNELS = "5 unchanged";
const MANY_CHANNELS = "100 unchanged";
const TURNS = "turns of the microtask queue in getTuple";
const NOT_LOOKING = "told that there are no writes";
const NONE = "without pending writes";
const SOME = "with those of a task";

/** The checkpointer: what did not change and what others wait for is not looked at. */
export const ofSaver: Group = {
  bars: [
    flat("getTuple does not wait for a list", OPEN, NO_LIST, A_LIST),
    flat("writes of a task cost their own, by index", READ, FEW_TASKS, MANY_TASKS),
    flat("putting them does, too", TASK, FEW_TASKS, MANY_TASKS),
    flat("other checkpoints' writes cost nothing", ELSEWHERE, FEW_TASKS, MANY_TASKS),
    flat("a put does not depend on unchanged channels", CHANNELS, FEW_CHANNELS, MANY_CHANNELS),
    flat("no pending writes: no extra await", TURNS, NOT_LOOKING, NONE, 1),
  ],
  run,
};

async function run({ round, quick }: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  const plan = { warmup: 50, calls: quick ? 200 : 1000, block: 20, round };
  await withFolder(async (path) => {
    const contender = await threadlog(path("log.db"));
    const compare = async (name: string, sides: Record<string, (index: number) => unknown>) => {
      const list = Object.entries(sides).map(([name, op]) => ({ name, op }));
      rows.push(...await interleave(list, { case: name, ...plan }));
    };
    const other = await threadlog(path("other.db"));
    await besideList(contender, other, compare);
    await other.close();
    await besideTasks(contender, compare);
    await besideChannels(contender, compare);
    await contender.close();
  });
  rows.push(...await awaits());
  return rows;
}

type Compare = (name: string, sides: Record<string, (index: number) => unknown>) => Promise<void>;

/** On a log of its own: else the list would be open for both sides. */
async function besideList(contender: Contender, other: Contender, compare: Compare): Promise<void> {
  const [run, listed] = [new Run(contender, "listed"), new Run(other, "listed")];
  for (const one of [run, listed]) while (one.count < 200) await one.put({ messages: messageOf(one.count) });
  const list = other.saver.list({ configurable: { thread_id: "listed" } });
  await list.next();
  await compare(OPEN, { [NO_LIST]: () => run.latest(), [A_LIST]: () => listed.latest() });
  await list.return(undefined);
}

async function besideTasks(contender: Contender, compare: Compare): Promise<void> {
  // Those with few are several, used in turn, or the few would become many.
  const sizes = [{ name: FEW_TASKS, tasks: 10, threads: 50 }, { name: MANY_TASKS, tasks: 1000, threads: 1 }];
  const runs: Record<string, Run[]> = {};
  for (const { name, tasks, threads } of sizes) {
    runs[name] = Array.from({ length: threads }, (_, i) => new Run(contender, `${name} ${i}`));
    for (const run of runs[name]) {
      await run.put({ messages: messageOf(0) });
      for (let task = 0; task < tasks; task++) await run.putWrites(task);
    }
  }
  const { log } = contender.saver as ThreadlogSaver;
  const sides = (op: (run: Run, index: number) => unknown) =>
    Object.fromEntries(
      Object.entries(runs).map(([name, of]) => [name, (i: number) => op(of[i % of.length]!, i)]),
    );
  await compare(READ, sides((run) => writesOf(log, run.thread, "task-7")));
  await compare(TASK, sides((run, i) => run.putWrites(i, `another-${i}`)));
  for (const run of Object.values(runs).flat()) await run.put({ messages: messageOf(1) });
  await compare(ELSEWHERE, sides((run) => run.latest()));
}

async function writesOf(log: Log, thread: string, task: string): Promise<void> {
  const writes = log.thread(below(checkpointsPath([], thread, ""), "writes"));
  let found = 0;
  for await (const _ of writes.entries({ prefix: keyOf(idOf(0), "", task) })) found++;
  if (found !== 1) throw new Error(`${found} entries of ${task}`);
}

async function besideChannels(contender: Contender, compare: Compare): Promise<void> {
  const runs = [[FEW_CHANNELS, 5], [MANY_CHANNELS, 100]] as const;
  const sides: Record<string, (index: number) => unknown> = {};
  for (const [name, length] of runs) {
    const run = new Run(contender, name);
    const unchanged = Object.fromEntries(Array.from({ length }, (_, i) => [`channel-${i}`, messageOf(i)]));
    await run.put({ ...unchanged, changing: messageOf(0) });
    sides[name] = (i) => run.put({ ...unchanged, changing: messageOf(i) }, 1, ["changing"]);
  }
  await compare(CHANNELS, sides);
}

/** In memory, where nothing has to be waited for; twice, so that all is there that is kept from one to the next. */
async function awaits(): Promise<Row[]> {
  const of = async (isTold: boolean, writes: number) => {
    await using log = await openLog(":memory:");
    const saver = new ThreadlogSaver(isTold ? withoutWrites(log) : log);
    const run = new Run({ name: "Threadlog", saver, close: () => {} });
    await run.put({ messages: messageOf(0) });
    for (let task = 0; task < writes; task++) await run.putWrites(task);
    await run.latest();
    return await turns(() => run.latest());
  };
  return [
    count(TURNS, NOT_LOOKING, await of(true, 0)),
    count(TURNS, NONE, await of(false, 0)),
    count(TURNS, SOME, await of(false, 1)),
  ];
}

/** A log whose threads of pending writes say at once that they have no entry. */
function withoutWrites(log: Log): Log {
  const { thread } = log;
  const none: AsyncIterable<never> = {
    [Symbol.asyncIterator]: () => ({ next: () => Promise.resolve({ done: true, value: undefined as never }) }),
  };
  return Object.assign(log, {
    thread: (...args: Parameters<typeof thread>) => {
      const found = thread.apply(log, args);
      const isWrites = Array.isArray(args[0]) && args[0].at(-1) === "writes";
      return isWrites ? Object.assign(found, { entries: () => none }) : found;
    },
  });
}

function messageOf(index: number): object {
  return { role: "assistant", content: `what the agent has found out in step ${index}, at some length `.repeat(4) };
}
