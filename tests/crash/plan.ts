/**
 * What the recorded writer does. Each step follows from the plan and the step's id alone, so that whoever looks at a
 * crash's remains knows what must be there, and can try the step again.
 */
import type { Event, Log, ProjectionDefinition } from "../../mod.ts";
import { defineProjection } from "../../mod.ts";
import { seeded } from "../support/scratch.ts";

/** What all steps of a run share. */
export interface Plan {
  readonly seed: number;
  /** Values are up to this long. */
  readonly bytes: number;
}

/** One thing to do. */
export type Step =
  | { readonly kind: "put"; readonly thread: string; readonly key: string; readonly value: unknown }
  | { readonly kind: "update" | "delete" | "fork" | "erase"; readonly thread: string; readonly key: string }
  | { readonly kind: "append"; readonly thread: string; readonly value: unknown }
  | { readonly kind: "batch"; readonly value: unknown };

/** What an update changes. */
export interface Counter {
  readonly count: number;
  readonly ids: readonly string[];
}

export const THREADS = ["a", "b", "c"];
/** Only this thread is erased: nobody forks it. */
export const SCRATCH = "scratch";
export const COUNTER = "counter";

const MAX_IDS = 4;
/** By then each thread has been put to, however many lanes there are. */
const FIRST_FORK = 12;
const SHARES: readonly (readonly [Step["kind"], number])[] = [
  ["put", 0.4],
  ["update", 0.6],
  ["batch", 0.8],
  ["append", 0.87],
  ["delete", 0.92],
  ["fork", 0.97],
  ["erase", 1],
];

function hash(text: string): number {
  let value = 7;
  for (const c of text) value = Math.imul(value, 31) + c.charCodeAt(0);
  return value;
}

/** What an id stands for. The first steps give each thread something that can be forked. */
export function stepOf(plan: Plan, id: string): Step {
  const step = anyStepOf(plan, id);
  const number = Number(id.slice(1));
  if (step.kind !== "fork" || number >= FIRST_FORK) return step;
  return { kind: "put", thread: THREADS[number % THREADS.length]!, key: step.key, value: { id } };
}

function anyStepOf(plan: Plan, id: string): Step {
  const random = seeded(plan.seed ^ Math.imul(hash(id), 0x9e3779b1));
  const share = random();
  const kind = SHARES.find(([, end]) => share < end)![0];
  const thread = THREADS[Math.floor(random() * THREADS.length)]!;
  const key = `k${Math.floor(random() * 4)}`;
  const chunk = Math.floor(random() * 2 ** 40).toString(36);
  const text = chunk.repeat(Math.ceil(random() * plan.bytes / chunk.length));
  const value = { id, text };
  switch (kind) {
    case "put":
      return { kind, thread: random() < 0.2 ? SCRATCH : thread, key, value };
    case "erase":
      return { kind, thread: SCRATCH, key };
    case "append":
      return { kind, thread, value };
    case "batch":
      return { kind, value };
    default:
      return { kind, thread, key };
  }
}

/** The counter after an update. */
export function counted(before: Counter | undefined, id: string): Counter {
  return { count: (before?.count ?? 0) + 1, ids: [...(before?.ids ?? []).slice(1 - MAX_IDS), id] };
}

/** The thread that a fork makes. */
export function forkName(id: string): string {
  return `fork-${id}`;
}

/** Does what an id stands for. A batch can be done in two transactions, as a mutant does it. */
export async function perform(log: Log, plan: Plan, id: string, split = false): Promise<Event[]> {
  const step = stepOf(plan, id);
  if (step.kind === "batch") {
    const part = (names: readonly string[]) =>
      log.batch((batch) => {
        for (const name of names) batch.thread(name).append("batched", { ...step.value as object, name }, { id });
      });
    if (!split) return await part(THREADS);
    return [...await part(THREADS.slice(0, 1)), ...await part(THREADS.slice(1))];
  }
  const thread = log.thread(step.thread);
  switch (step.kind) {
    case "put":
      return [await thread.put(step.key, step.value, { id })];
    case "append":
      return [await thread.append("noted", step.value, { id })];
    case "delete":
      return [await thread.delete(step.key, { id })];
    case "update": {
      const initial: Counter = { count: 0, ids: [] };
      return [await thread.update(COUNTER, (draft) => counted(draft, id), { id, initial })];
    }
    case "fork": {
      const fork = await thread.fork(forkName(id), { id });
      for await (const event of fork.replay({ reverse: true, limit: 1 })) return [event];
      throw new Error("a fork begins with its own event");
    }
    case "erase": {
      const tombstone = await thread.erase();
      return tombstone === undefined ? [] : [tombstone];
    }
  }
}

/** How many events of each type there are: a projection that is saved, and goes on from what was saved. */
export const tally: ProjectionDefinition<Record<string, number>> = defineProjection({
  name: "tally",
  version: 1,
  initial: (): Record<string, number> => ({}),
  evolve: (state, { type }) => ({ ...state, [type]: (state[type] ?? 0) + 1 }),
});
