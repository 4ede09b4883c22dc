/**
 * Random histories: whatever is written in whatever order, every read agrees with the model.
 */
import fc from "fast-check";
import type { BackendSubject } from "../support/backends.ts";
import { runs, seed, timeLimit } from "../support/seed.ts";
import { agrees } from "./agreement.ts";
import { at, onStore, type World } from "./world.ts";

const IDS = ["a", "b", "c", "d", "e"];
const KEYS = ["k", "l", "😀", ""];

type Step = readonly [
  kind: "set" | "patch" | "delete" | "app" | "fork" | "restore" | "bury" | "purge" | "pause" | "tick",
  thread: number,
  other: number,
  choice: number,
];

const step: fc.Arbitrary<Step> = fc.tuple(
  fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom("set", "patch", "delete") },
    { weight: 4, arbitrary: fc.constantFrom("fork", "restore") },
    { weight: 2, arbitrary: fc.constantFrom("bury", "purge", "app") },
    { weight: 1, arbitrary: fc.constantFrom("pause", "tick") },
  ) as fc.Arbitrary<Step[0]>,
  fc.nat({ max: 2 }),
  fc.nat({ max: IDS.length - 1 }),
  fc.nat({ max: 100 }),
);

async function take(world: World, [kind, thread, other, choice]: Step): Promise<void> {
  const { model } = world;
  const id = IDS[thread]!;
  const key = KEYS[choice % KEYS.length]!;
  const readable = (model.threads.get(at(id))?.moments ?? []).flatMap((moment, i) =>
    moment === undefined ? [] : [i + 1]
  );
  const version = [0, ...readable][choice % (readable.length + 1)]!;
  switch (kind) {
    case "set":
      return void await world.set(id, key);
    case "patch":
      return void (model.state(at(id)).has(key) ? await world.patch(id, key) : await world.set(id, key));
    case "delete":
      return void await world.delete(id, key);
    case "app":
      return void await world.app(id);
    case "fork":
      if (model.threads.has(at(id)) && !model.threads.has(at(IDS[other]!))) await world.fork(id, version, IDS[other]!);
      return;
    case "restore":
      if (model.threads.has(at(id))) await world.restore(id, version);
      return;
    case "bury":
      if (model.threads.has(at(id))) await world.bury(id);
      return;
    case "purge":
      return await world.purge();
    case "pause":
      return await world.pause();
    case "tick":
      world.now += choice - 20;
  }
}

/** Runs random histories on new stores. */
export function randomHistories(subject: BackendSubject, reopening: boolean): () => Promise<void> {
  return async () => {
    const property = fc.asyncProperty(fc.array(step, { maxLength: 40, size: "max" }), async (steps) => {
      await onStore(subject, reopening, async (world) => {
        for (const one of steps) await take(world, one);
        await world.purge();
        await agrees(world);
      })();
    });
    await fc.assert(property, { numRuns: runs(reopening ? 8 : 25), seed, interruptAfterTimeLimit: timeLimit(40_000) });
  };
}
