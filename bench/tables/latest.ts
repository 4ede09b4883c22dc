import { withFolder } from "../files.ts";
import { interleave, type Row, type Scale } from "../measure.ts";
import { payload } from "../payloads.ts";
import { type Contender, memory, Run, sqlite, threadlog } from "../savers.ts";

/** swarmstate's table 1: the newest checkpoint, as the thread grows. */
export async function latest({ round, quick }: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  for (const length of [5, 50, 500, 2000]) {
    await withFolder(async (path) => {
      const file = { ...await threadlog(path("log.db")), name: "Threadlog, file" };
      const inMemory = { ...await threadlog(":memory:"), name: "Threadlog, memory" };
      const peer = await sqlite(path("sqlite.db"));
      const contenders: Contender[] = [file, inMemory, memory(), ...peer ? [peer] : []];
      const runs = contenders.map((contender) => new Run(contender));
      for (const run of runs) while (run.count < length) await run.put(payload());
      const sides = runs.map((run, i) => ({ name: contenders[i]!.name, op: () => run.latest() }));
      const name = `latest of ${String(length).padStart(4)} checkpoints`;
      rows.push(...await interleave(sides, { case: name, warmup: 100, calls: quick ? 300 : 500, block: 50, round }));
      for (const contender of contenders) await contender.close();
    });
  }
  return rows;
}
