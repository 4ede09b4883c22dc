/**
 * The contract of forks, restores and erasures: who keeps what, at every version and position.
 */
import assert from "node:assert/strict";
import { agrees } from "./agreement.ts";
import { at, bytesOf, forkOf, setOf, type World } from "./world.ts";

async function positions({ backend, model }: World): Promise<number[]> {
  return (await backend.read({ after: 0, to: model.position, limit: 1000 })).map(({ position }) => position);
}

/** A thread with puts, a patch, a deletion and an app's event: versions 1 to 6. */
async function grow(world: World, id: string): Promise<void> {
  await world.set(id, "a");
  await world.set(id, "b");
  await world.patch(id, "a");
  await world.delete(id, "b");
  await world.app(id);
  await world.set(id, "c");
}

/** Tests by name. */
export const branching: Readonly<Record<string, (world: World) => Promise<void>>> = {
  "state and history at every version and position": async (world) => {
    await grow(world, "t");
    await world.set("other", "a");
    await world.patch("t", "a");
    await world.patch("t", "a", { state: bytesOf("whole") });
    await world.patch("t", "a");
    await world.delete("t", "never there");
    await agrees(world);
  },

  "the latest entry is found again after the newest is deleted": async (world) => {
    for (const key of ["a", "b", "c"]) await world.set("t", key);
    await world.delete("t", "c");
    await world.delete("t", "c");
    await world.set("t", "a");
    await world.delete("t", "a");
    await world.pause();
    await world.delete("t", "b");
    await agrees(world);
    await world.set("t", "b");
    await world.set("t", "b");
    await world.set("t", "a");
    await world.delete("t", "a");
    await world.fork("t", 7, "child");
    await world.delete("child", "b");
    await world.delete("child", "a");
    await agrees(world);
  },

  "a fork at every version, and forks of those": async (world) => {
    await grow(world, "t");
    for (let version = 0; version <= 6; version++) await world.fork("t", version, `f${version}`);
    await world.set("f3", "b");
    await world.patch("f3", "a");
    await world.delete("f6", "a");
    await world.set("t", "d");
    await world.pause();
    // At an inherited version, at the fork itself, after it.
    await world.fork("f3", 2, "g2");
    await world.fork("f3", 4, "g4");
    await world.fork("f3", 6, "g6");
    await world.delete("g6", "b");
    await world.fork("g6", 8, "h8");
    await world.fork("g6", 1, "h1");
    await world.fork("f0", 0, "f00");
    await world.fork("f0", 1, "f01");
    await world.set("f00", "z");
    await agrees(world);
    assert.deepEqual((await world.backend.thread(at("g2"), { position: 99 }))?.parent, { path: at("t"), version: 2 });
  },

  "restores, to every version and in forks": async (world) => {
    await grow(world, "t");
    for (let version = 0; version <= 7; version++) await world.restore("t", version);
    await world.set("t", "a");
    await world.restore("t", 4);
    await world.delete("t", "a");
    await world.fork("t", 16, "child");
    await world.pause();
    // To an inherited version: before the parent's restores, to one of them, and to the child's own.
    await world.restore("child", 3);
    await world.patch("child", "a");
    await world.restore("child", 9);
    await world.restore("child", 19);
    await world.delete("child", "a");
    await world.fork("child", 18, "grandchild");
    await world.restore("grandchild", 2);
    await world.delete("grandchild", "b");
    await agrees(world);
  },

  "an erased thread is empty, and grows again": async (world) => {
    await grow(world, "t");
    await world.set("other", "a");
    await world.bury("t");
    await agreesUnpurged(world);
    await world.purge();
    await agrees(world);
    assert.deepEqual(await positions(world), [7, 8]);
    await world.set("t", "b");
    await world.patch("t", "b");
    await world.restore("t", 7);
    await world.restore("t", 9);
    await agrees(world);
    await world.erase("t");
    await agrees(world);
    assert.deepEqual(await positions(world), [7, 13]);
    await world.erase("other");
    await world.set("t", "a");
    await agrees(world);
  },

  "forks keep what they share of an erased thread": async (world) => {
    await grow(world, "t");
    await world.fork("t", 3, "child");
    await world.set("child", "x");
    await world.erase("t");
    assert.deepEqual(await positions(world), [1, 2, 3, 7, 8, 9]);
    await agrees(world);
    await world.patch("child", "a");
    await world.restore("child", 2);
    await world.fork("child", 2, "grandchild");
    await world.set("t", "a");
    await agrees(world);
    // The child goes: the grandchild shares two events still.
    await world.erase("child");
    assert.deepEqual(await positions(world), [1, 2, 9, 12, 13, 14]);
    await agrees(world);
    await world.erase("grandchild");
    assert.deepEqual(await positions(world), [9, 13, 14, 15]);
    await agrees(world);
  },

  "a grandchild keeps its parent's own events, too": async (world) => {
    await grow(world, "t");
    await world.fork("t", 4, "child");
    await world.set("child", "x");
    await world.set("child", "y");
    await world.fork("child", 6, "grandchild");
    await world.erase("child");
    await agrees(world);
    await world.erase("t");
    await agrees(world);
    assert.deepEqual(await positions(world), [1, 2, 3, 4, 7, 8, 10, 11, 12]);
    await world.patch("grandchild", "a");
    await world.delete("grandchild", "x");
    await agrees(world);
    await world.erase("grandchild");
    assert.deepEqual(await positions(world), [11, 12, 15]);
    await agrees(world);
  },

  "what only an erased fork of an erased thread shared is removed": async (world) => {
    await world.set("t", "a");
    await world.set("t", "b");
    await world.fork("t", 1, "early");
    await world.erase("t");
    await world.set("t", "c");
    // A later fork shares the thread from its tombstone on, and must not keep what is before.
    await world.fork("t", 4, "late");
    await world.erase("early");
    assert.deepEqual(await positions(world), [4, 5, 6, 7]);
    await agrees(world);
    await world.erase("t");
    await agrees(world);
    assert.deepEqual(await positions(world), [4, 5, 6, 7, 8]);
    await world.erase("late");
    assert.deepEqual(await positions(world), [7, 8, 9]);
    await agrees(world);
  },

  "a thread erased twice keeps both parts that forks share": async (world) => {
    for (const key of ["a", "b", "c"]) await world.set("t", key);
    await world.fork("t", 2, "one");
    await world.erase("t");
    for (const key of ["d", "e", "f"]) await world.set("t", key);
    await world.fork("t", 6, "two");
    await world.erase("t");
    await world.set("t", "g");
    await agrees(world);
    assert.deepEqual(await positions(world), [1, 2, 4, 5, 6, 7, 9, 10, 11]);
    await world.fork("two", 5, "three");
    await world.restore("two", 5);
    await agrees(world);
    await world.erase("two");
    await world.erase("one");
    await agrees(world);
    await world.erase("three");
    assert.deepEqual(await positions(world), [10, 11, 14, 15, 16]);
    await agrees(world);
  },

  "a fork of an erased thread begins at its tombstone": async (world) => {
    await grow(world, "t");
    await world.fork("t", 6, "before");
    await world.erase("t");
    await world.fork("t", 7, "at");
    await world.set("t", "x");
    await world.fork("t", 8, "behind");
    await world.pause();
    await world.patch("behind", "x");
    await world.delete("behind", "x");
    await world.fork("behind", 7, "second");
    await agrees(world);
    await world.erase("t");
    await agrees(world);
    await world.erase("behind");
    await agrees(world);
  },

  "a restore in a fork keeps the inherited events that it goes back to": async (world) => {
    await grow(world, "t");
    await world.fork("t", 5, "child");
    await world.erase("t");
    await world.restore("child", 1);
    await world.restore("child", 3);
    await world.delete("child", "a");
    await world.restore("child", 0);
    await world.restore("child", 5);
    await agrees(world);
    await world.erase("child");
    assert.deepEqual(await positions(world), [8, 14]);
    await agrees(world);
  },

  "erasing many events takes several steps, each of them bounded": async (world) => {
    for (let i = 0; i < 12; i++) {
      const events = Array.from({ length: 250 }, (_, j) => setOf("t", `k${j % 40}`));
      await world.append(...events);
    }
    await world.set("other", "a");
    await world.fork("t", 100, "child");
    await world.bury("t");
    let steps = 0;
    while (await world.backend.purge()) {
      steps++;
      await world.pause();
      // In between, everything else goes on as ever.
      await world.set("other", `step ${steps}`);
    }
    assert.ok(steps >= 3, `${steps} steps`);
    const { backend, model } = world;
    assert.equal((await backend.stats()).erased, 2900);
    const kept = await backend.read({ after: 0, to: model.position, limit: 1000 });
    assert.deepEqual(kept.map(({ position }) => position), model.kept().map(({ position }) => position));
    const history = await backend.history(at("child"), { from: 1, to: 200, limit: 1000, reverse: false });
    assert.deepEqual(history.map(({ version }) => version), Array.from({ length: 101 }, (_, i) => i + 1));
  },

  "a request may hold a tombstone among other events": async (world) => {
    await grow(world, "t");
    await world.fork("t", 2, "child");
    await world.append(forkOf("t", 3, "second"), forkOf("child", 3, "third"));
    await world.bury("child");
    await world.bury("t");
    await world.set("child", "x");
    await world.purge();
    await agrees(world);
  },
};

/** Erased and not yet removed: what reads through the thread tell is the same. */
async function agreesUnpurged({ backend, model }: World): Promise<void> {
  const path = at("t");
  const position = model.position;
  assert.deepEqual(
    await backend.entries(path, { position }, { prefix: "", after: undefined, limit: 9, reverse: false }),
    [],
  );
  assert.deepEqual(await backend.latest(path, { position }), []);
  const history = await backend.history(path, { from: 1, to: 100, limit: 100, reverse: false });
  assert.deepEqual(history.map(({ type }) => type), ["erase"]);
  await assert.rejects(backend.entry(path, "a", { version: 3 }), { code: "erased" });
  await assert.rejects(backend.entry(path, "a", { position: 3 }), { code: "erased" });
}
