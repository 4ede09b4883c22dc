import { measure } from "mitata";
import { openLog } from "../../mod.ts";
import { msgpack } from "../../log/msgpack.ts";
import type { Row, Scale } from "../measure.ts";
import { payload } from "../payloads.ts";

/** swarmstate's table 4: a snapshot against a deep copy, and the diff of one change. With a read and the codec. */
export async function snapshot({ quick }: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  const time = async (name: string, side: string, op: () => unknown) => {
    const { p50, p99 } = await measure(op, { min_cpu_time: quick ? 5e7 : 3e8, min_samples: 8 });
    rows.push({ case: name, side, unit: "us", p50: p50 / 1000, p99: p99 / 1000 });
  };
  let kept: unknown;
  for (const count of quick ? [100, 1000, 10_000] : [100, 1000, 10_000, 50_000]) {
    const entries = Array.from({ length: count }, (_, v) => [`k${v}`, { v, s: "x".repeat(16) }] as const);
    await using log = await openLog(":memory:");
    const thread = log.thread("store");
    for (let at = 0; at < count; at += 1000) {
      await log.batch((batch) => {
        for (const [key, value] of entries.slice(at, at + 1000)) batch.thread("store").put(key, value);
      });
    }
    const copied = Object.fromEntries(entries);
    const size = String(count).padStart(6);
    await time(`snapshot of ${size} entries`, "Threadlog", () => void (kept = log.snapshot()));
    await time(`snapshot of ${size} entries`, "structuredClone", () => void (kept = structuredClone(copied)));
    await time(`get, of ${size} entries`, "Threadlog", () => thread.get("k7"));
    const before = log.snapshot();
    await thread.put("k7", { v: -1, s: "changed" });
    const after = log.snapshot();
    await time(`diff of one change, ${size} entries`, "Threadlog", async () => {
      for await (const change of log.diff(before, after)) kept = change;
    });
  }
  const value = payload();
  const encoded = msgpack.encode(value);
  const text = JSON.stringify(value);
  await time("encode P", "Threadlog", () => void (kept = msgpack.encode(value)));
  await time("encode P", "JSON", () => void (kept = JSON.stringify(value)));
  await time("decode P", "Threadlog", () => void (kept = msgpack.decode(encoded)));
  await time("decode P", "JSON", () => void (kept = JSON.parse(text)));
  if (kept === undefined) throw new Error("nothing was measured");
  return rows;
}
