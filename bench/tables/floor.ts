import { openLog } from "../../mod.ts";
import { withFolder } from "../files.ts";
import { interleave, type Row, type Scale, type Side } from "../measure.ts";
import { values } from "../payloads.ts";
import { RawFile, RawSqlite } from "../raw.ts";

/** A put of 1 KiB against one row and one commit of raw SQLite, and against the file system. */
export async function floor({ round, quick }: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  const objects = values(1024);
  const bytes = objects.map((value) => new TextEncoder().encode(JSON.stringify(value)));
  const pick = <T>(list: readonly T[], index: number) => list[index % list.length]!;
  for (const durability of ["normal", "full"] as const) {
    await withFolder(async (path) => {
      const synchronous = durability === "full" ? "FULL" : "NORMAL";
      await using log = await openLog(path("log.db"), { durability });
      const thread = log.thread("floor");
      const sqlite = new RawSqlite(path("raw.db"), synchronous);
      const file = new RawFile(path("raw.bin"), bytes[0]!.length);
      const sides: Side[] = [
        { name: "Threadlog", op: (i) => thread.put(`k${i % 1000}`, pick(objects, i)) },
        { name: "raw SQLite", op: (i) => sqlite.put(pick(bytes, i)) },
        durability === "full"
          ? { name: "pwrite + fdatasync", op: (i) => file.writeAndSync(pick(bytes, i)) }
          : { name: "pwrite", op: (i) => file.write(pick(bytes, i)) },
      ];
      const calls = quick ? 1500 : 5000;
      rows.push(...await interleave(sides, { case: `put 1 KiB, ${synchronous}`, warmup: 1200, calls, round }));
      sqlite.close();
      file.close();
    });
  }
  return rows;
}
