import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { openLog } from "../../mod.ts";
import { withFolder } from "../files.ts";
import { type Row, type Scale, summary } from "../measure.ts";
import { values } from "../payloads.ts";
import { RawSqlite } from "../raw.ts";

/** How many writers there are, by durability. */
const WRITERS = { full: [1, 8, 64], normal: [64] } as const;

/** How late a timer of 1 ms comes while up to 64 writers append, each as fast as it can. */
export async function lag({ quick }: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  const seconds = quick ? 1.5 : 5;
  const objects = values(900);
  const bytes = objects.map((value) => new TextEncoder().encode(JSON.stringify(value)));
  const observe = async (side: string, load?: (running: () => boolean) => Promise<unknown>) => {
    let running = true;
    const loading = load?.(() => running);
    const late: number[] = [];
    const end = performance.now() + seconds * 1000;
    while (performance.now() < end) {
      const start = performance.now();
      await sleep(1);
      late.push(Math.max(0, performance.now() - start - 1));
    }
    running = false;
    await loading;
    rows.push(summary("a timer of 1 ms comes late by", side, "ms", Float64Array.from(late)));
  };
  await observe("idle");
  await withFolder(async (path) => {
    for (const durability of ["full", "normal"] as const) {
      for (const writers of WRITERS[durability]) {
        await using log = await openLog(path(`${durability} ${writers}.db`), { durability });
        let count = 0;
        const start = performance.now();
        const side = `Threadlog ${durability.toUpperCase()}, ${writers} writers`;
        await observe(side, (running) =>
          Promise.all(Array.from({ length: writers }, async (_, writer) => {
            const thread = log.thread(`n${writer}`);
            for (let i = 0; running(); i++, count++) await thread.put("k", objects[i % 64]!);
          })));
        const rate = count / (performance.now() - start) * 1000;
        rows.push({ case: "meanwhile written", side, unit: "ops/s", p50: rate });
      }
    }
    const raw = new RawSqlite(path("raw.db"), "FULL");
    let count = 0;
    const start = performance.now();
    const side = "raw SQLite FULL, a row a turn";
    await observe(side, async (running) => {
      for (let i = 0; running(); i++, count++) {
        raw.put(bytes[i % 64]!);
        await setImmediate();
      }
    });
    rows.push({ case: "meanwhile written", side, unit: "ops/s", p50: count / (performance.now() - start) * 1000 });
    raw.close();
  });
  return rows;
}
