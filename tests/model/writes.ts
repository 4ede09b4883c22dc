/**
 * Commands that write, and what the model makes of them.
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import { type BatchThread, ConflictError, type Event, type Log, type Thread, type ThreadId } from "../../mod.ts";
import type { LogModel, ModelEvent } from "../support/log_model.ts";
import { fails, Patched, sameEvent, sameEvents, sameThread } from "./agreement.ts";
import { byLabels, type Expected, idOf, IDS, isBelow, KEYS, nameOf, type Session, turn } from "./session.ts";
import { changed, recipe, RECIPES, value } from "./values.ts";

/** A write of one event, as data, so that it shrinks and prints well. */
export type Write =
  & { readonly id: ThreadId; readonly named: boolean; readonly meta?: unknown }
  & (
    | { readonly kind: "put"; readonly key: string; readonly value: unknown }
    | { readonly kind: "update"; readonly key: string; readonly recipe: number; readonly initial?: { value: unknown } }
    | { readonly kind: "delete"; readonly key: string }
    | { readonly kind: "append"; readonly type: string; readonly value: unknown }
  );

const common = {
  id: fc.constantFrom(...IDS),
  named: fc.boolean(),
  meta: fc.option(value, { nil: undefined, freq: 4 }),
};
const key = fc.constantFrom(...KEYS);

/** One write. */
export const write: fc.Arbitrary<Write> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ ...common, kind: fc.constant("put" as const), key, value }) },
  {
    weight: 4,
    arbitrary: fc.record({
      ...common,
      kind: fc.constant("update" as const),
      key,
      recipe: fc.nat({ max: RECIPES - 1 }),
      initial: fc.option(fc.record({ value }), { nil: undefined }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ ...common, kind: fc.constant("delete" as const), key }) },
  {
    weight: 1,
    arbitrary: fc.record({
      ...common,
      kind: fc.constant("append" as const),
      type: fc.constantFrom("said", "x"),
      value,
    }),
  },
);

/** What a write expects of its thread. */
export const expectation = fc.constantFrom("none", "none", "none", "right", "stale", "ahead", "new");
type Expectation = "none" | "right" | "stale" | "ahead" | "new";

function expectedVersion(expectation: string, version: number): number | undefined {
  switch (expectation as Expectation) {
    case "none":
      return undefined;
    case "right":
      return version;
    case "stale":
      return Math.max(0, version - 1);
    case "ahead":
      return version + 1;
    case "new":
      return 0;
  }
}

interface Options {
  readonly id?: string;
  readonly meta?: unknown;
  readonly expect?: number | "new";
}

/** Does a write on a thread, or on a thread of a batch. */
function perform(thread: Thread | BatchThread, write: Write, options: Options): unknown {
  switch (write.kind) {
    case "put":
      return thread.put(write.key, write.value, options);
    case "update":
      return thread.update(write.key, recipe(write.recipe), {
        ...options,
        ...(write.initial && { initial: write.initial.value }),
      });
    case "delete":
      return thread.delete(write.key, options);
    case "append":
      return thread.append(write.type, write.value, options);
  }
}

/** Whether a write finds the key that it needs. */
function isPossible(model: LogModel, write: Write, touched: ReadonlyMap<string, boolean>): boolean {
  if (write.kind !== "update" || write.initial !== undefined) return true;
  const name = nameOf(write.id);
  return touched.get(name + write.key) ?? model.state(name).has(write.key);
}

/** Which keys a run of writes leaves, for those that come later in the same run. */
function allPossible(model: LogModel, writes: readonly Write[]): boolean {
  const touched = new Map<string, boolean>();
  for (const one of writes) {
    if (!isPossible(model, one, touched)) return false;
    if (one.kind !== "append") touched.set(nameOf(one.id) + one.key, one.kind !== "delete");
  }
  return true;
}

/** The model's version of a write that is accepted. */
function record(model: LogModel, write: Write, id: string | undefined): ModelEvent {
  const name = nameOf(write.id);
  const { meta } = write;
  switch (write.kind) {
    case "put":
      return model.write(name, { type: "set", key: write.key, value: write.value, left: write.value, id, meta });
    case "delete":
      return model.write(name, { type: "delete", key: write.key, id, meta });
    case "append":
      return model.write(name, { type: write.type, value: write.value, id, meta });
    case "update": {
      const { key } = write;
      const entry = model.state(name).get(key);
      const before = entry === undefined ? write.initial!.value : entry.value;
      const left = changed(before, write.recipe);
      const input = entry === undefined
        ? { type: "set", value: left }
        : { type: "patch", value: new Patched(before, left) };
      return model.write(name, { ...input, key, left, id, meta });
    }
  }
}

function optionsOf(expected: Expected, { named, meta }: Write): Options {
  return { ...(named && { id: `write ${++expected.writes}` }), ...(meta !== undefined && { meta }) };
}

/** One write, which may expect a version of its thread. */
export async function writeOne(expected: Expected, session: Session, writer: number, write: Write, expects: string) {
  const model = expected.log;
  const name = nameOf(write.id);
  const log = session.log(writer);
  const version = expectedVersion(expects, model.version(name));
  const options = {
    ...optionsOf(expected, write),
    ...(version !== undefined && { expect: version || "new" as const }),
  };
  const again = async (on: Log) => [await perform(on.thread(write.id), write, options) as Event];
  if (version !== undefined && version !== model.version(name)) {
    const error = await fails("conflict", () => again(log)) as ConflictError;
    assert.deepEqual([error.expected, error.actual], [version, model.version(name)]);
  } else if (!allPossible(model, [write])) {
    await fails("not_found", () => again(log));
  } else {
    const [actual] = await again(log);
    model.tick(session.now);
    const event = record(model, write, options.id);
    sameEvent(actual!, event);
    if (options.id !== undefined) expected.repeatable.push({ again, events: [event] });
  }
  await turn();
  await sameThread(session.log(writer + (expected.writes % 2)), model, name);
}

/** Writes that are made in one turn without awaiting: they keep their order. */
export async function writeTogether(expected: Expected, session: Session, writer: number, writes: readonly Write[]) {
  const model = expected.log;
  const log = session.log(writer);
  const settled = await Promise.allSettled(
    writes.map((one) => perform(log.thread(one.id), one, optionsOf({ ...expected }, { ...one, named: false }))),
  );
  for (const [i, one] of writes.entries()) {
    const result = settled[i]!;
    if (!allPossible(model, [one])) {
      assert.equal(result.status, "rejected");
      assert.equal((result.reason as { code: string }).code, "not_found");
      continue;
    }
    if (result.status === "rejected") throw result.reason;
    // Each is a request of its own, though they may share a transaction.
    model.tick(session.now);
    sameEvent(result.value as Event, record(model, one, undefined));
  }
  await turn();
  for (const name of new Set(writes.map(({ id }) => nameOf(id)))) await sameThread(log, model, name);
}

/** Writes that are made together or not at all. */
export async function writeBatch(
  expected: Expected,
  session: Session,
  writer: number,
  writes: readonly Write[],
  expects: string,
) {
  const model = expected.log;
  const log = session.log(writer);
  const name = nameOf(writes[0]!.id);
  const version = expectedVersion(expects, model.version(name));
  const options = writes.map((one) => optionsOf(expected, one));
  const again = (on: Log) =>
    on.batch((batch) =>
      writes.forEach((one, i) =>
        perform(batch.thread(one.id), one, {
          ...options[i]!,
          ...(i === 0 && version !== undefined && { expect: version }),
        })
      )
    );
  if (version !== undefined && version !== model.version(name)) {
    // Where another thread lacks a key, either is right.
    const error = await fails(allPossible(model, writes) ? "conflict" : ["conflict", "not_found"], () => again(log));
    if (error instanceof ConflictError) {
      assert.deepEqual([error.expected, error.actual], [version, model.version(name)]);
    }
  } else if (!allPossible(model, writes)) {
    await fails("not_found", () => again(log));
  } else {
    const actual = await again(log);
    model.tick(session.now);
    const events = writes.map((one, i) => record(model, one, options[i]!.id));
    sameEvents(actual, events);
    if (writes.some(({ named }) => named)) expected.repeatable.push({ again, events });
  }
  await turn();
  for (const name of new Set(writes.map(({ id }) => nameOf(id)))) {
    await sameThread(session.log(writer + 1), model, name);
  }
}

/** Doing what was done under the same ids gives what was recorded first. */
export async function repeat(expected: Expected, session: Session, writer: number, choice: number) {
  const { repeatable, log: model } = expected;
  const candidates = repeatable.filter(({ events }) =>
    events.every((event) => model.history(event.thread).includes(event))
  );
  const chosen = candidates[choice % candidates.length];
  if (chosen === undefined) return;
  sameEvents(await chosen.again(session.log(writer)), chosen.events);
  const named = chosen.events.find(({ id }) => id !== undefined)!;
  const thread = session.log(writer).thread(idOf(named.thread));
  await fails("id_conflict", () => thread.put("k", "something else", { id: named.id! }));
  assert.equal(await session.log(writer).head(), model.position);
}

/** Where a fork or restore goes back to. */
export interface Target {
  readonly by: "version" | "position";
  /** Of all the points that there are, and one more. */
  readonly choice: number;
}

/** A fork, of any thread, under any id. */
export async function fork(
  expected: Expected,
  session: Session,
  writer: number,
  from: ThreadId,
  to: ThreadId,
  target: Target | undefined,
) {
  const model = expected.log;
  const [parent, child] = [nameOf(from), nameOf(to)];
  const { at, version, refusal } = pointOf(model, parent, target);
  const thread = session.log(writer).thread(from);
  const run = () => thread.fork(to, at === undefined ? {} : { at });
  if (refusal === "not_found" && version > model.version(parent)) await fails("not_found", run);
  else if (model.threads.has(child)) {
    // Either is right where the origin is missing, too.
    const error = await fails(refusal === undefined ? "conflict" : ["conflict", refusal], run);
    if (error instanceof ConflictError) assert.deepEqual([error.expected, error.actual], [0, model.version(child)]);
  } else if (refusal !== undefined) await fails(refusal, run);
  else {
    assert.deepEqual((await run()).id, to);
    model.tick(session.now);
    model.fork(parent, version, child, { value: { parent: from, version } });
  }
  await turn();
  await sameThread(session.log(writer), model, child);
}

/** A restore. */
export async function restore(expected: Expected, session: Session, writer: number, id: ThreadId, target: Target) {
  const model = expected.log;
  const name = nameOf(id);
  const { at, version, refusal } = pointOf(model, name, target);
  const thread = session.log(writer).thread(id);
  if (refusal !== undefined) await fails(refusal, () => thread.restore(at!));
  else {
    const event = await thread.restore(at!);
    model.tick(session.now);
    sameEvent(event, model.restore(name, version, { value: { version } }));
  }
  await turn();
  await sameThread(session.log(writer + 1), model, name);
}

function pointOf(model: LogModel, name: string, target: Target | undefined) {
  const head = model.version(name);
  const refused = model.threads.has(name) ? undefined : "not_found";
  if (target === undefined) return { at: undefined, version: head, refusal: refused };
  if (target.by === "version") {
    const version = target.choice % (head + 2);
    const found = model.find(name, { version });
    const refusal = version > head ? "not_found" : found === "erased" ? "erased" : refused;
    return { at: version, version, refusal };
  }
  const position = target.choice % (model.position + 1);
  const found = model.find(name, { position });
  const version = typeof found === "string" ? 0 : found.event.version;
  return { at: { position }, version, refusal: found === "erased" ? "erased" : refused };
}

/** Erases a thread. */
export async function erase(expected: Expected, session: Session, writer: number, id: ThreadId) {
  const model = expected.log;
  const name = nameOf(id);
  const actual = await session.log(writer).thread(id).erase();
  if (model.listed(model.position).some(({ thread }) => thread.name === name)) {
    model.tick(session.now);
    sameEvent(actual!, model.erase(name, { value: { through: model.version(name) } }));
  } else assert.equal(actual, undefined);
  await turn();
  await sameThread(session.log(writer + 1), model, name);
}

/** Erases all threads below a path. */
export async function eraseBelow(expected: Expected, session: Session, writer: number, prefix: ThreadId) {
  const model = expected.log;
  const actual = await session.log(writer).erase(prefix);
  const names = model.listed(model.position).map(({ thread }) => thread.name).filter((name) => isBelow(name, prefix));
  if (names.length > 0) model.tick(session.now);
  sameEvents(
    actual,
    names.sort(byLabels).map((name) => model.erase(name, { value: { through: model.version(name) } })),
  );
  await turn();
  for (const name of names) await sameThread(session.log(writer), model, name);
}
