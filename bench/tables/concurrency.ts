import { openLog } from "../../mod.ts";
import { withFolder } from "../files.ts";
import { type Row, type Scale, throughput } from "../measure.ts";
import { text, values } from "../payloads.ts";
import { randoms } from "../payloads.ts";
import { RawSqlite } from "../raw.ts";
import { Run, sqlite, threadlog } from "../savers.ts";

/** swarmstate's table 5 on one event loop: writers that each await their call before the next. */
export async function concurrency({ round, quick }: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  const calls = quick ? 4000 : 20_000;
  const small = { v: 1, s: "x".repeat(32) };
  const objects = values(900);
  const bytes = objects.map((value) => new TextEncoder().encode(JSON.stringify(value)));
  const words = text(350, randoms(7));
  for (const writers of [1, 8, 64]) {
    await withFolder(async (path) => {
      const sides: [name: string, side: string, run: () => Promise<number>][] = [];
      for (const durability of ["normal", "full"] as const) {
        const name = durability.toUpperCase();
        sides.push([`put + get of 40 B, ${name}`, "Threadlog", async () => {
          await using log = await openLog(path(`pairs-${name}.db`), { durability });
          return await throughput(writers, calls, async (writer) => {
            const thread = log.thread(`n${writer}`);
            await thread.put("k", small);
            await thread.get("k");
          });
        }]);
      }
      sides.push(["put of 0.9 KB, FULL", "Threadlog", async () => {
        await using log = await openLog(path("puts.db"), { durability: "full" });
        return await throughput(writers, calls, (writer, i) => log.thread(`n${writer}`).put("k", objects[i % 64]!));
      }]);
      sides.push(["put of 0.9 KB, FULL", "raw SQLite, a commit for each row", async () => {
        const raw = new RawSqlite(path("rows.db"), "FULL");
        const rate = await throughput(writers, calls / 2, (_, i) => raw.put(bytes[i % 64]!));
        raw.close();
        return rate;
      }]);
      sides.push(["put of 0.9 KB, FULL", `raw SQLite, a commit for 64 rows`, async () => {
        const raw = new RawSqlite(path("batches.db"), "FULL");
        const rate = await throughput(1, Math.ceil(calls / 64), () => raw.putAll(bytes)) * bytes.length;
        raw.close();
        return rate;
      }]);
      const peer = await sqlite(path("peer.db"), "FULL");
      const own = await threadlog(path("saver.db"), "full");
      for (const contender of [own, ...peer ? [peer] : []]) {
        sides.push(["saver.put of 0.5 KB, FULL", contender.name, async () => {
          const runs = Array.from({ length: writers }, (_, i) => new Run(contender, `t${i}`));
          const puts = calls / 4;
          const rate = await throughput(writers, puts, (w, i) => runs[w]!.put({ messages: `${i} ${words}` }));
          await contender.close();
          return rate;
        }]);
      }
      if (round % 2 === 1) sides.reverse();
      for (const [name, side, run] of sides) {
        const width = String(writers).padStart(2);
        rows.push({ case: `${name}, ${width} writers`, side, unit: "ops/s", p50: await run() });
      }
    });
  }
  return rows;
}
