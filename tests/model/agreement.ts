/**
 * Holds what a log shows against the model.
 */
import assert from "node:assert/strict";
import {
  apply,
  applyChanges,
  type Change,
  type EntryOf,
  type Event,
  type Log,
  type Operation,
  type ThreadId,
  ThreadlogError,
  type ThreadView,
} from "../../mod.ts";
import { byCodePoint, type LogModel, type ModelEntry, type ModelEvent, newestOf } from "../support/log_model.ts";
import type { Found, ModelState } from "../support/log_model.ts";
import { all } from "../support/scratch.ts";
import { byLabels, type Expected, idOf, isBelow, type Kept, KEYS, nameOf } from "./session.ts";

/** What a patch changed: its operations are whatever leads from one to the other. */
export class Patched {
  readonly before: unknown;
  readonly after: unknown;

  constructor(before: unknown, after: unknown) {
    this.before = before;
    this.after = after;
  }
}

/** An event is what the model has. */
export function sameEvent(actual: Event, expected: ModelEvent): void {
  const { position, version, time, type, key, value, id, meta } = expected;
  const where = `the event at position ${position}`;
  if (value instanceof Patched) {
    assert.deepEqual(apply(value.before, actual.value as Operation[]), value.after, `${where}, applied`);
  } else {
    assert.deepEqual(actual.value, value, where);
  }
  const header = { position, version, time, type, key, meta, thread: idOf(expected.thread), id: id ?? `@${position}` };
  assert.deepEqual({ key: undefined, ...actual, value: undefined }, { ...header, value: undefined }, where);
  assert.ok(Object.isFrozen(actual));
}

/** Events are what the model has. */
export function sameEvents(actual: readonly Event[], expected: readonly ModelEvent[]): void {
  assert.deepEqual(actual.map(({ position }) => position), expected.map(({ position }) => position));
  expected.forEach((event, i) => sameEvent(actual[i]!, event));
}

/** A call fails with a code, or one of several. */
export async function fails(
  codes: string | readonly string[],
  action: () => Promise<unknown>,
): Promise<ThreadlogError> {
  let result: unknown;
  try {
    result = await action();
  } catch (error) {
    if (!(error instanceof ThreadlogError)) throw error;
    assert.ok([codes].flat().includes(error.code), `${codes} rather than ${error.code}`);
    return error;
  }
  assert.fail(`expected ${codes}, got ${JSON.stringify(result) ?? result}`);
}

/** A thread as it is now. */
export async function sameThread(log: Log, model: LogModel, name: string): Promise<void> {
  const thread = log.thread(idOf(name));
  const moments = model.threads.get(name)?.moments ?? [];
  const head = moments.at(-1)?.event;
  await sameState(thread, model.state(name), head);
  sameEvents(await all(thread.replay()), model.history(name));
}

/** A view shows a state. */
export async function sameState(view: ThreadView, state: ModelState, head: ModelEvent | undefined): Promise<void> {
  assert.deepEqual(await view.head(), { version: head?.version ?? 0, position: head?.position ?? 0 });
  const sorted = [...state.keys()].sort(byCodePoint);
  const entries = sorted.map((key) => entryOf(key, state.get(key)!));
  // One by one first: a listing may bring into memory what single reads must find by themselves.
  for (const key of KEYS) assert.deepEqual(await view.get(key), state.get(key)?.value, `key ${JSON.stringify(key)}`);
  const newest = newestOf(state);
  assert.deepEqual(await view.latest(), newest && entryOf(newest.event.key!, newest), "latest");
  assert.deepEqual(await all(view.entries()), entries, "entries");
  assert.deepEqual(await all(view.keys({ reverse: true })), sorted.toReversed(), "keys, backward");
  const after = sorted[1];
  if (after === undefined) return;
  assert.deepEqual(await all(view.keys({ after })), sorted.slice(2), "keys behind the second");
  assert.deepEqual(await all(view.keys({ after, reverse: true })), sorted.slice(0, 1), "keys before the second");
  assert.deepEqual(await all(view.entries({ limit: 2 })), entries.slice(0, 2), "two entries");
  const below = sorted.filter((key) => key.startsWith("b"));
  assert.deepEqual(await all(view.keys({ prefix: "b" })), below, "keys that start with b");
  assert.deepEqual(await view.entry(after), entries[1], "an entry");
}

function entryOf(key: string, { event, value }: ModelEntry): EntryOf<Record<string, unknown>> {
  const { version, position, time, id, meta } = event;
  return { key, value, version, position, time, id: id ?? `@${position}`, meta };
}

/** A view shows what there was at a point. */
export async function sameView(view: ThreadView, found: Found, isVersion: boolean): Promise<void> {
  if (found === "nothing") return await sameState(view, new Map(), undefined);
  if (typeof found !== "string") return await sameState(view, found.state, found.event);
  const code = found === "beyond" ? "not_found" : "erased";
  await fails(code, () => view.get("k"));
  await fails(code, () => view.latest());
  await fails(code, () => all(view.entries()));
  if (isVersion) await fails(code, () => view.head());
}

/** A snapshot shows what it showed when it was taken; what was erased since may be gone. */
export async function sameSnapshot({ snapshot, shows, listed }: Kept, model: LogModel): Promise<void> {
  const isErased = (name: string) => (model.threads.get(name)?.tombstone ?? 0) > snapshot.position;
  for (const name of model.threads.keys()) {
    const view = snapshot.thread(idOf(name));
    const found = shows.get(name) ?? "nothing";
    if (found === "erased") continue;
    if (isErased(name) && found !== "nothing") {
      for (const key of KEYS) {
        const before: unknown = found === "beyond" ? undefined : found.state.get(key)?.value;
        const value = await view.get(key).catch((error: unknown) => {
          if (error instanceof ThreadlogError && error.code === "erased") return before;
          throw error;
        });
        assert.deepEqual(value, before);
      }
    } else await sameView(view, found, false);
  }
  const alive = listed.filter(({ thread: { name } }) => !isErased(name));
  sameThreads(await all(snapshot.threads()), alive);
}

/** The log as a whole: its head, its threads, its events. */
export async function sameLog(log: Log, { log: model }: Expected): Promise<void> {
  assert.equal(await log.head(), model.position);
  sameThreads(await all(log.threads()), model.listed(model.position));
  sameEvents(await all(log.read()), model.kept());
}

/** Everything, now. */
export async function sameEverything(log: Log, expected: Expected): Promise<void> {
  await sameLog(log, expected);
  for (const name of expected.log.threads.keys()) await sameThread(log, expected.log, name);
  for (const kept of expected.snapshots) await sameSnapshot(kept, expected.log);
  const { ok, events, first } = await log.verify();
  assert.deepEqual({ ok, events, first }, { ok: true, events: expected.log.kept().length, first: undefined });
}

/** A listing of threads, in the order of their labels. */
export function sameThreads(actual: readonly unknown[], expected: ReturnType<LogModel["listed"]>): void {
  const sorted = [...expected].sort((a, b) => byLabels(a.thread.name, b.thread.name));
  assert.deepEqual(
    actual,
    sorted.map(({ thread: { name, parent }, event: { version, position, time } }) => ({
      thread: idOf(name),
      version,
      position,
      time,
      parent: parent && { thread: idOf(parent.name), version: parent.version },
    })),
  );
}

/** Changes lead from one state of the threads to another, and say so in order. */
export function sameChanges(
  changes: readonly Change[],
  model: LogModel,
  states: (name: string) => readonly [Found, Found],
  prefix: ThreadId | readonly [] = [],
): void {
  const expected: unknown[] = [];
  for (const name of [...model.threads.keys()].sort(byLabels)) {
    if (!isBelow(name, prefix)) continue;
    const [before, after] = states(name).map(valuesOf) as [Map<string, unknown>, Map<string, unknown>];
    for (const key of [...new Set([...before.keys(), ...after.keys()])].sort(byCodePoint)) {
      if (before.has(key) && after.has(key) && same(before.get(key), after.get(key))) continue;
      const kind = !before.has(key) ? "added" : !after.has(key) ? "removed" : "changed";
      expected.push({ thread: idOf(name), key, kind, before: before.get(key), after: after.get(key) });
    }
    const own = changes.filter(({ thread }) => nameOf(thread) === name);
    assert.deepEqual(applyChanges(before, own), after, "the changes, applied");
  }
  assert.deepEqual(changes.map(({ operations: _operations, ...change }) => change), expected);
}

/** What was erased compares as if it had never been there. */
function valuesOf(found: Found): Map<string, unknown> {
  if (typeof found === "string") return new Map();
  return new Map([...found.state].map(([key, { value }]) => [key, value]));
}

function same(a: unknown, b: unknown): boolean {
  try {
    assert.deepStrictEqual(a, b);
    return true;
  } catch {
    return false;
  }
}
