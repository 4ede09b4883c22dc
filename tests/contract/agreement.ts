/**
 * Holds everything that a backend can be asked against the model.
 */
import assert from "node:assert/strict";
import type { Chain, ReadPoint, StoredEvent, ThreadRecord } from "../../log/backend.ts";
import { ThreadlogError } from "../../log/errors.ts";
import type { ThreadPath } from "../../log/ids.ts";
import { byCodePoint, type Found, type ModelEvent, type ModelThread } from "../support/log_model.ts";
import type { World } from "./world.ts";

/** Larger than any answer here. */
const ALL = 1000;

/** Every read at every point, before and, where the suite runs that way, after opening the store again. */
export async function agrees(world: World): Promise<void> {
  await compare(world);
  await world.pause();
  await compare(world);
}

async function compare(world: World): Promise<void> {
  const { backend, model } = world;
  assert.deepEqual(await backend.head(), { position: model.position, time: model.time });
  assert.equal(backend.changed(), false);
  await compareLog(world);
  for (const thread of model.threads.values()) {
    await compareHistory(world, thread);
    const head = thread.moments.length;
    for (let version = 0; version <= head + 1; version++) await comparePoint(world, thread.name, { version });
    for (let position = 0; position <= model.position + 1; position++) {
      await comparePoint(world, thread.name, { position });
    }
  }
  await comparePoint(world, "nobody\0", { position: model.position });
  await comparePoint(world, "nobody\0", { version: 1 });
}

async function compareLog({ backend, model, stored }: World): Promise<void> {
  const kept = model.kept();
  const read = await backend.read({ after: 0, to: model.position, limit: ALL });
  assert.deepEqual(read, kept.map(({ position }) => stored.get(position)), "the log");
  const { threads, events, erased } = await backend.stats();
  assert.deepEqual(
    { threads, events, erased },
    { threads: model.threads.size, events: kept.length, erased: model.position - kept.length },
  );
  for (let at = 0; at <= model.position; at++) {
    const listed = await backend.threads({ prefix: "", after: undefined, limit: ALL, at });
    const expected = model.listed(at).sort((a, b) => byCodePoint(a.thread.name, b.thread.name));
    assert.deepEqual(listed, expected.map(({ thread, event }) => recordOf(thread, event)), `threads at ${at}`);
  }
}

async function compareHistory({ backend, model, stored }: World, { name, moments }: ModelThread): Promise<void> {
  const path = name as ThreadPath;
  const events = model.history(name);
  const head = moments.length;
  const ranges = [[1, head], [0, head + 5], [2, head], [1, head - 1], [Math.ceil(head / 2), head], [head, head]];
  for (const [from, to] of ranges as [number, number][]) {
    for (const reverse of [false, true]) {
      const within = events.filter(({ version }) => version >= from && version <= to);
      const expected = (reverse ? within.reverse() : within).map(({ position }) => stored.get(position));
      for (const limit of [1, 3, ALL]) {
        const found = await backend.history(path, { from, to, limit, reverse });
        assert.deepEqual(
          found,
          expected.slice(0, limit),
          `history ${JSON.stringify({ name, from, to, limit, reverse })}`,
        );
      }
    }
  }
  for (const { id } of events) {
    if (id === undefined) continue;
    const own = model.byId(name, id);
    const found = await backend.byId(path, id);
    assert.deepEqual(found, own && stored.get(own.position), `id ${id} of ${name}`);
  }
}

async function comparePoint(world: World, name: string, at: ReadPoint): Promise<void> {
  const { backend, model } = world;
  const path = name as ThreadPath;
  const found = model.find(name, at);
  const where = `${JSON.stringify(name)} at ${JSON.stringify(at)}`;
  if (found === "erased" || found === "beyond") {
    const code = found === "erased" ? "erased" : "not_found";
    // A record tells that a thread was erased instead of failing on it.
    if (found === "erased" && "position" in at) {
      const record = await backend.thread(path, at);
      assert.deepEqual(record, recordOf(model.threads.get(name)!, undefined), `record of ${where}`);
    } else await fails(code, () => backend.thread(path, at), `record of ${where}`);
    await fails(code, () => backend.entry(path, "a", at), `entry of ${where}`);
    await fails(code, () => backend.latest(path, at), `latest of ${where}`);
    await fails(code, () => backend.entries(path, at, everything(false)), `entries of ${where}`);
    return;
  }
  const record = found === "nothing" ? undefined : recordOf(model.threads.get(name)!, found.event);
  assert.deepEqual(await backend.thread(path, at), record, `record of ${where}`);
  await compareState(world, path, at, found, where);
}

async function compareState(world: World, path: ThreadPath, at: ReadPoint, found: Found, where: string) {
  const { backend, stored } = world;
  const state = typeof found === "string" ? undefined : found.state;
  const chains = new Map<string, Chain>();
  for (const key of [...state?.keys() ?? []].sort(byCodePoint)) {
    chains.set(key, (state!.get(key)!.value as number[]).map((position) => stored.get(position)!));
  }
  for (const key of new Set([...keysOf(world), "never"])) {
    assert.deepEqual(await backend.entry(path, key, at), chains.get(key) ?? [], `${JSON.stringify(key)} of ${where}`);
  }
  const forward = await backend.entries(path, at, everything(false));
  assert.deepEqual(forward, [...chains.values()], `entries of ${where}`);
  const backward = await backend.entries(path, at, everything(true));
  assert.deepEqual(backward, [...chains.values()].reverse(), `entries of ${where}, backward`);
  const latest = typeof found === "string" ? 0 : found.event.latest;
  const newest = [...chains.values()].find(([event]) => event!.position === latest) ?? [];
  assert.deepEqual(await backend.latest(path, at), newest, `latest of ${where}`);
}

function keysOf({ stored }: World): Set<string> {
  return new Set([...stored.values()].flatMap(({ key }: StoredEvent) => key ?? []));
}

function everything(reverse: boolean) {
  return { prefix: "", after: undefined, limit: ALL, reverse };
}

function recordOf({ name, created, erased, parent }: ModelThread, event: ModelEvent | undefined): ThreadRecord {
  return {
    path: name as ThreadPath,
    version: event?.version ?? 0,
    position: event?.position ?? 0,
    latest: event?.latest ?? 0,
    created,
    time: event?.time ?? 0,
    erased,
    parent: parent && { path: parent.name as ThreadPath, version: parent.version },
  };
}

async function fails(code: string, action: () => Promise<unknown>, what: string): Promise<void> {
  let result: unknown;
  try {
    result = await action();
  } catch (error) {
    assert.equal(error instanceof ThreadlogError ? error.code : error, code, what);
    return;
  }
  assert.fail(`${what}: expected ${code}, got ${JSON.stringify(result)}`);
}
