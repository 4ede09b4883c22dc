import type { Bar } from "../bars.ts";
import { databaseBytes, withFolder } from "../files.ts";
import { interleave, type Row, type Scale } from "../measure.ts";
import { randoms, text } from "../payloads.ts";
import { type Contender, Run, sqlite, threadlog } from "../savers.ts";

const TURNS = 200;
const ALL = `${TURNS} turns, all kept`;
/** After how many turns the bytes are drawn. */
const MARKS = [25, 50, 100, 200];
const WINDOW = 8;
const WINDOWED = `${TURNS} turns, a window of ${WINDOW}`;

/** What a conversation may take on disk. */
export const DISK_BARS: readonly Bar[] = [
  { property: "all kept: twice the content", case: ALL, side: "Threadlog", base: "content", atMost: 2 },
  { property: "all kept: 0.03 of SqliteSaver", case: ALL, side: "Threadlog", base: "SqliteSaver", atMost: 0.03 },
  { property: "a window: 0.25 of SqliteSaver", case: WINDOWED, side: "Threadlog", base: "SqliteSaver", atMost: 0.25 },
];

/**
 * Bytes on disk after a conversation of 200 turns of 2 KB: all of it kept, and a window of the last 8. Then, of the
 * files opened anew, the newest checkpoint and any of them.
 */
export async function disk({ round, quick }: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [name, window] of [[ALL, TURNS], [WINDOWED, WINDOW]] as const) {
    await withFolder(async (path) => {
      const open = async (): Promise<Contender[]> => {
        const peer = await sqlite(path("SqliteSaver"));
        return [await threadlog(path("Threadlog")), ...peer ? [peer] : []];
      };
      let content = 0;
      for (const contender of await open()) {
        content = await converse(new Run(contender), window, (turns) => {
          if (window < TURNS) return;
          const bytes = databaseBytes(path(contender.name));
          const after = `after ${String(turns).padStart(3)} turns, all kept`;
          rows.push({ case: after, side: contender.name, unit: "bytes", p50: bytes });
        });
        await contender.close();
        rows.push({ case: name, side: contender.name, unit: "bytes", p50: databaseBytes(path(contender.name)) });
      }
      rows.push({ case: name, side: "content", unit: "bytes", p50: content });
      const contenders = await open();
      const runs = contenders.map((contender) => new Run(contender, undefined, TURNS));
      const plan = { warmup: 0, calls: quick ? 60 : 200, block: 20, round };
      const any = runs.map((run, i) => ({ name: contenders[i]!.name, op: (at: number) => run.at(at * 79 % TURNS) }));
      rows.push(...await interleave(any, { case: `${name}: at(any)`, ...plan }));
      const latest = runs.map((run, i) => ({ name: contenders[i]!.name, op: () => run.latest() }));
      rows.push(...await interleave(latest, { case: `${name}: latest`, ...plan }));
      for (const contender of contenders) await contender.close();
    });
  }
  return rows;
}

/** Holds the conversation; resolves with the bytes of its messages. */
async function converse(run: Run, window: number, onMark: (turns: number) => void): Promise<number> {
  const random = randoms(42);
  const messages: unknown[] = [];
  let content = 0;
  for (let turn = 0; turn < TURNS; turn++) {
    const message = { role: turn % 2 === 0 ? "user" : "assistant", content: text(2000, random) };
    content += JSON.stringify(message).length;
    messages.push(message);
    await run.put({ messages: messages.slice(-window) }, turn + 1);
    if (MARKS.includes(turn + 1)) onMark(turn + 1);
  }
  await run.latest();
  return content;
}
