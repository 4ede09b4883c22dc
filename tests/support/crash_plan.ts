/**
 * What the crashing writer appends. It follows from a seed and an id alone, so that the test can say what must be there,
 * and try again.
 */
import type { Event, Log } from "../../mod.ts";
import { seeded } from "./scratch.ts";

/** The threads that it writes to. */
export const THREADS = ["a", "b", "c"];

function hash(text: string): number {
  let value = 0;
  for (const c of text) value = Math.imul(value, 31) + c.charCodeAt(0);
  return value;
}

/** What an id stands for. */
export function planOf(seed: number, id: string) {
  const random = seeded(seed ^ hash(id));
  const kind = random();
  const size = random() < 0.1 ? 60_000 : Math.floor(random() * 300);
  return { kind, thread: THREADS[Math.floor(random() * THREADS.length)]!, value: { id, text: "t".repeat(size) } };
}

/** Appends what an id stands for: one event, a batch across all threads, or an update. */
export async function attempt(log: Log, seed: number, id: string): Promise<Event[]> {
  const { kind, thread, value } = planOf(seed, id);
  if (kind < 0.5) return [await log.thread(thread).put(`k${id.length}`, value, { id })];
  if (kind < 0.8) {
    return await log.batch((batch) => {
      for (const name of THREADS) batch.thread(name).append("batched", { ...value, name }, { id });
    });
  }
  const initial = { count: 0, ids: [] as string[] };
  return [
    await log.thread(thread).update("counter", (draft) => {
      draft.count++;
      draft.ids = [...draft.ids.slice(-3), id];
    }, { id, initial }),
  ];
}
