import { openLog } from "../../mod.ts";
import { withFolder } from "../files.ts";
import { interleave, type Row, type Scale } from "../measure.ts";

/** What a step costs as its thread and its log grow: an entry of its own for each event, as checkpoints are. */
export async function growth({ round, quick, full }: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  const sizes = [100, 1000, 10_000, 100_000, ...full ? [1_000_000] : []];
  // The first pass is only for the compilers: its rows are dropped.
  for (const [pass, size] of [1000, ...sizes].entries()) {
    if (pass === 1) rows.length = 0;
    await withFolder(async (path) => {
      const file = path("log.db");
      {
        await using log = await openLog(file, { durability: "normal" });
        for (let at = 0; at < size; at += 1000) {
          await log.batch((batch) => {
            const thread = batch.thread("long");
            for (let i = at; i < Math.min(size, at + 1000); i++) thread.put(key(i), { i, s: "x".repeat(80) });
          });
        }
      }
      const calls = quick ? 200 : 400;
      const side = String(size).padStart(7) + " events";
      const time = async (name: string, op: (index: number) => unknown, few = calls) => {
        const plan = { case: name, warmup: Math.ceil(few / 4), calls: few, round };
        rows.push(...await interleave([{ name: side, op }], plan));
      };
      await time("open, latest, close", async () => {
        await using log = await openLog(file, { durability: "normal" });
        await log.thread("long").latest();
      }, quick ? 20 : 50);
      await using log = await openLog(file, { durability: "normal" });
      const thread = log.thread("long");
      // With fewer keys than calls, most would not be cold.
      if (size >= 2 * calls) await time("get of an old key, cold", (i) => thread.get(key((i * 7919) % size)));
      await time("put", (i) => thread.put(key(size + i), { i, s: "y".repeat(80) }));
      await time("latest", () => thread.latest());
      await time("at(middle).get", (i) => thread.at(Math.ceil(size / 2) + i % 40).get(key(Math.floor(size / 4))));
      await time("fork at the middle", (i) => thread.fork(`fork ${i}`, { at: Math.ceil(size / 2) }));
      const before = log.snapshot();
      await thread.put(key(0), { changed: true });
      const after = log.snapshot();
      await time("diff of one change", async () => {
        for await (const _ of log.diff(before, after));
      });
      await time("list of the last 10", async () => {
        for await (const _ of thread.entries({ reverse: true, limit: 10 }));
      });
    });
  }
  return rows;
}

function key(index: number): string {
  return `k${String(index).padStart(8, "0")}`;
}
