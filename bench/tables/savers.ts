import { withFolder } from "../files.ts";
import { interleave, type Plan, type Row, type Scale } from "../measure.ts";
import { payload } from "../payloads.ts";
import { type Contender, memory, Run, sqlite, threadlog } from "../savers.ts";

/** swarmstate's table 2: put and get on disk, like durability with like. */
export async function durable(scale: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  for (const durability of ["normal", "full"] as const) {
    const synchronous = durability === "full" ? "FULL" : "NORMAL";
    const open = async (path: (name: string) => string): Promise<Contender[]> => {
      const peer = await sqlite(path("sqlite.db"), synchronous);
      return [await threadlog(path("log.db"), durability), ...peer ? [peer] : []];
    };
    rows.push(...await compare(open, synchronous, scale));
  }
  return rows;
}

/** swarmstate's table 3: the same without a disk. */
export async function in_memory(scale: Scale): Promise<Row[]> {
  return await compare(async () => [await threadlog(":memory:"), memory()], "memory", scale);
}

async function compare(
  open: (path: (name: string) => string) => Promise<Contender[]>,
  how: string,
  { round, quick }: Scale,
): Promise<Row[]> {
  const rows: Row[] = [];
  await withFolder(async (path) => {
    const contenders = await open(path);
    const measure = async (name: string, op: (run: Run, index: number) => unknown, plan: Partial<Plan> = {}) => {
      const runs = contenders.map((contender) => new Run(contender, name));
      for (const run of runs) while (run.count < 20) await run.put(payload());
      const sides = runs.map((run, at) => ({ name: contenders[at]!.name, op: (i: number) => op(run, i) }));
      const calls = quick ? 600 : 3000;
      rows.push(...await interleave(sides, { case: `${name}, ${how}`, warmup: 300, calls, round, ...plan }));
    };
    const same = payload();
    await measure("put, P unchanged", (run) => run.put(same));
    await measure("put, every message new", (run, i) => run.put(payload(` of ${i}`)));
    await measure("get latest", (run) => run.latest(), { calls: 500, warmup: 100 });
    await measure("list 10", (run) => run.list(), { calls: quick ? 100 : 300, warmup: 30, block: 10 });
    await measure("putWrites", (run, i) => run.putWrites(i));
    for (const contender of contenders) await contender.close();
  });
  return rows;
}
