import { databaseBytes, withFolder } from "../files.ts";
import type { Row, Scale } from "../measure.ts";
import { randoms, text } from "../payloads.ts";
import { Run, sqlite, threadlog } from "../savers.ts";

const TURNS = 200;

/** Bytes on disk after a conversation of 200 turns of 2 KB: all of it kept, and a window of the last 8. */
export async function disk(_: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  for (const window of [TURNS, 8]) {
    const name = window === TURNS ? "200 turns, all kept" : `200 turns, a window of ${window}`;
    await withFolder(async (path) => {
      const peer = await sqlite(path("sqlite.db"));
      let content = 0;
      const contenders = [
        { ...await threadlog(path("log.db")), file: path("log.db") },
        ...peer ? [{ ...peer, file: path("sqlite.db") }] : [],
      ];
      for (const contender of contenders) {
        const random = randoms(42);
        const run = new Run(contender);
        const messages: unknown[] = [];
        content = 0;
        for (let turn = 0; turn < TURNS; turn++) {
          const message = { role: turn % 2 === 0 ? "user" : "assistant", content: text(2000, random) };
          content += JSON.stringify(message).length;
          messages.push(message);
          await run.put({ messages: messages.slice(-window) }, turn + 1);
        }
        await run.latest();
        await contender.close();
        rows.push({ case: name, side: contender.name, unit: "bytes", p50: databaseBytes(contender.file) });
      }
      rows.push({ case: name, side: "content", unit: "bytes", p50: content });
    });
  }
  return rows;
}
