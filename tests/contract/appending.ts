/**
 * The contract of appending: places without gaps, requests whole or not at all, and what becomes of refused ones.
 */
import assert from "node:assert/strict";
import { digestOf, FIRST_LINK, linkOf } from "../../log/digest.ts";
import { agrees } from "./agreement.ts";
import { at, bytesOf, forkOf, inputOf, setOf, type World } from "./world.ts";

/** Tests by name. */
export const appending: Readonly<Record<string, (world: World) => Promise<void>>> = {
  "an empty log has nothing": async (world) => {
    assert.deepEqual(await world.backend.head(), { position: 0, time: 0 });
    assert.deepEqual(await world.request(), []);
    assert.deepEqual(await world.request({ events: [], expects: [] }), [{ kind: "appended", placements: [] }]);
    assert.equal(await world.backend.purge(), false);
    await agrees(world);
  },

  "positions and versions have no gaps, across threads, requests and calls": async (world) => {
    await world.append(setOf("a", "x"), setOf("b", "x"), setOf("a", "y"));
    const requests = ["a", "c", "b"].map((id) => ({ events: [setOf(id, "z"), setOf(id, "x")], expects: [] }));
    const outcomes = await world.request(...requests);
    requests.forEach(({ events }, i) => world.accepted(events, outcomes[i]!));
    await world.pause();
    await world.set("c", "x");
    assert.deepEqual(world.model.version(at("a")), 4);
    await agrees(world);
  },

  "a refused request leaves nothing, and the others stand": async (world) => {
    await world.set("a", "x", { id: "first" });
    const good = [setOf("a", "y"), setOf("new", "y")];
    const outcomes = await world.request(
      { events: [setOf("a", "lost"), setOf("lost", "x")], expects: [{ path: at("a"), version: 7 }] },
      { events: good, expects: [{ path: at("a"), version: 1 }, { path: at("new"), version: 0 }] },
      { events: [setOf("lost", "x"), setOf("a", "lost", { id: "first" })], expects: [] },
      { events: [setOf("lost", "x"), forkOf("nobody", 0, "lost")], expects: [] },
      // Holds only once the second was accepted.
      { events: [setOf("a", "z")], expects: [{ path: at("a"), version: 2 }] },
    );
    assert.deepEqual(outcomes.map(({ kind }) => kind), ["conflict", "appended", "duplicate", "no_origin", "appended"]);
    world.accepted(good, outcomes[1]!);
    world.accepted([setOf("a", "z")], outcomes[4]!);
    await agrees(world);
    assert.equal(await world.backend.thread(at("lost"), { position: 100 }), undefined);
    await world.set("lost", "x");
    await agrees(world);
  },

  "a conflict names the thread and both versions": async (world) => {
    await world.set("a", "x");
    await world.pause();
    const events = [setOf("b", "x")];
    const tell = async (id: string, version: number) =>
      (await world.request({ events, expects: [{ path: at(id), version }] }))[0];
    assert.deepEqual(await tell("a", 0), { kind: "conflict", path: at("a"), expected: 0, actual: 1 });
    assert.deepEqual(await tell("a", 2), { kind: "conflict", path: at("a"), expected: 2, actual: 1 });
    assert.deepEqual(await tell("b", 1), { kind: "conflict", path: at("b"), expected: 1, actual: 0 });
    await world.erase("a");
    assert.deepEqual(await tell("a", 0), { kind: "conflict", path: at("a"), expected: 0, actual: 2 });
    await world.fork("a", 2, "c");
    assert.deepEqual(await tell("c", 2), { kind: "conflict", path: at("c"), expected: 2, actual: 3 });
    await agrees(world);
  },

  "a duplicate tells the events that have the ids, before any conflict": async (world) => {
    await world.append(setOf("a", "x", { id: "1" }), setOf("b", "x", { id: "1" }), setOf("a", "y", { id: "2" }));
    await world.pause();
    const expects = [{ path: at("a"), version: 99 }];
    const events = [
      setOf("c", "x", { id: "1" }),
      setOf("a", "other", { id: "2" }),
      setOf("b", "z"),
      setOf("b", "x", { id: "1" }),
    ];
    const [outcome] = await world.request({ events, expects });
    const { stored } = world;
    assert.deepEqual(outcome, { kind: "duplicate", found: [undefined, stored.get(3), undefined, stored.get(2)] });
    // In one call, too, the second is a duplicate of the first.
    const twice = setOf("c", "x", { id: "new" });
    const both = await world.request({ events: [twice], expects: [] }, { events: [twice], expects: [] });
    world.accepted([twice], both[0]!);
    assert.deepEqual(both[1], { kind: "duplicate", found: [stored.get(4)] });
    await agrees(world);
  },

  "ids are a thread's own: a fork does not have its parent's": async (world) => {
    await world.set("a", "x", { id: "1" });
    await world.fork("a", 1, "b", { id: "fork" });
    await world.set("b", "x", { id: "1" });
    const [outcome] = await world.request({
      events: [forkOf("a", 1, "b", { id: "fork" })],
      expects: [{ path: at("b"), version: 0 }],
    });
    assert.deepEqual(outcome, { kind: "duplicate", found: [world.stored.get(2)] });
    await agrees(world);
  },

  "ids of erased events are free again, whether or not a fork keeps the events": async (world) => {
    for (const [id, forked] of [["a", false], ["b", true]] as const) {
      await world.set(id, "x", { id: "1" });
      if (forked) await world.fork(id, 1, "fork");
      await world.bury(id);
      assert.equal(await world.backend.byId(at(id), "1"), undefined);
      await world.purge();
      await world.pause();
      assert.equal(await world.backend.byId(at(id), "1"), undefined);
      await world.set(id, "y", { id: "1" });
      await agrees(world);
      await world.erase(id);
      await world.set(id, "y", { id: "1" });
    }
    await agrees(world);
  },

  "hostile names are names like any other": async (world) => {
    const names = ["", "\0", "__proto__", "constructor", "%", "_", "'; DROP TABLE events; --", "\u{ffff}", "😀", "@1"];
    for (const name of names) {
      await world.set([name, "t"], name, { id: name || "empty" });
      await world.app([name], name || "empty", { meta: bytesOf(name) });
    }
    await agrees(world);
    for (const name of names) {
      assert.equal((await world.backend.byId(at([name, "t"]), name || "empty"))?.key, name);
      assert.equal(await world.backend.byId(at([name]), name || "empty"), undefined);
    }
  },

  "the fork's origin must exist and not be erased": async (world) => {
    await world.set("a", "x");
    await world.set("a", "y");
    await world.pause();
    const tell = async (parent: string, version: number) =>
      (await world.request({ events: [forkOf(parent, version, "child")], expects: [] }))[0];
    const refusal = (id: string, version: number, erased: boolean) => ({
      kind: "no_origin",
      path: at(id),
      version,
      erased,
    });
    assert.deepEqual(await tell("nobody", 0), refusal("nobody", 0, false));
    assert.deepEqual(await tell("nobody", 1), refusal("nobody", 1, false));
    assert.deepEqual(await tell("a", 3), refusal("a", 3, false));
    await world.fork("a", 1, "early");
    await world.bury("a");
    assert.deepEqual(await tell("a", 2), refusal("a", 2, true));
    await world.purge();
    assert.deepEqual(await tell("a", 1), refusal("a", 1, true));
    await world.fork("a", 3, "late");
    // What "late" inherits was erased before it began; "early" has it still.
    assert.deepEqual(await tell("late", 1), refusal("late", 1, true));
    const restore = inputOf({ path: at("late"), type: "restore", origin: { path: at("late"), version: 2 } });
    assert.deepEqual((await world.request({ events: [restore], expects: [] }))[0], refusal("late", 2, true));
    await world.fork("early", 1, "fine");
    await agrees(world);
  },

  "times never go backwards, though the clock does": async (world) => {
    const start = world.now;
    for (const now of [start, start - 500, start - 1, start + 1, 5, start + 1]) {
      world.now = now;
      await world.append(setOf("a", "x"), setOf("b", "x"));
      await world.pause();
    }
    assert.equal((await world.backend.head()).time, start + 1);
    await agrees(world);
  },

  "the links are the hash chain of digest.ts": async (world) => {
    const first = setOf("a", "x", { meta: bytesOf("m") });
    const [one] = await world.append(first);
    assert.deepEqual(one!.link, linkOf(FIRST_LINK, first.digest, 1, 1, one!.time));
    const [fork] = await world.append(forkOf("a", 1, "b"));
    assert.deepEqual(fork!.link, linkOf(one!.link, forkOf("a", 1, "b").digest, 2, 2, fork!.time));
    await world.set("a", "x");
    await world.erase("a");
    await world.set("a", "x");
    await world.pause();
    for (const event of await world.backend.read({ after: 0, to: 9, limit: 9 })) {
      const { version, position, time } = event;
      const before = version === 1 || event.type === "erase"
        ? FIRST_LINK
        : (await world.backend.history(event.path, { from: version - 1, to: version - 1, limit: 1, reverse: false }))[
          0
        ]!
          .link;
      assert.deepEqual(event.link, linkOf(before, digestOf(event), position, version, time), `position ${position}`);
    }
  },

  "numbers beyond 32 bits are exact": async (world) => {
    world.now = 2 ** 43 + 5;
    await world.set("a", "x", { base: 2 ** 31 + 1, schema: 2 ** 31 + 3 });
    await world.set("a", "y", { base: Number.MAX_SAFE_INTEGER, schema: 2 ** 32 - 1 });
    await agrees(world);
    const { backend } = world;
    assert.equal(await backend.positionAt(2 ** 43 + 4, 2), 0);
    assert.equal(await backend.positionAt(2 ** 43 + 5, 2), 2);
    assert.deepEqual(await backend.read({ after: 2 ** 31 + 7, to: 2 ** 33, limit: 5 }), []);
    assert.deepEqual((await backend.read({ after: 0, to: 2 ** 33, limit: 5 })).length, 2);
    assert.equal((await backend.thread(at("a"), { position: 2 ** 53 - 1 }))?.version, 2);
    const saved = { version: 2 ** 31 + 9, position: 2 ** 40 + 1, state: bytesOf("s") };
    await backend.saveState("p", saved);
    await world.pause();
    assert.deepEqual(await world.backend.loadState("p"), saved);
  },

  "empty bytes are bytes, and absent ones are not": async (world) => {
    const empty = new Uint8Array(0);
    await world.set("a", "x", { value: empty, state: empty, meta: empty });
    await world.append(inputOf({ path: at("a"), type: "app" }));
    await world.backend.saveState("p", { version: 1, position: 2, state: empty });
    await agrees(world);
    const [one, two] = await world.backend.read({ after: 0, to: 2, limit: 2 });
    assert.deepEqual([one!.value?.length, one!.state?.length, one!.meta?.length], [0, 0, 0]);
    assert.deepEqual([two!.value, two!.state, two!.meta], [undefined, undefined, undefined]);
    assert.equal((await world.backend.loadState("p"))?.state.length, 0);
  },

  "bytes are kept as they are": async (world) => {
    const every = Uint8Array.from({ length: 70_000 }, (_, i) => i * 31);
    await world.set("a", "x", { value: every, state: every, meta: every });
    // A part of a larger buffer is only that part.
    await world.set("a", "y", { value: every.subarray(3, 8) });
    every.fill(0, 0, 0);
    await agrees(world);
  },

  "many requests in one call, and many events in one": async (world) => {
    const requests = Array.from(
      { length: 300 },
      (_, i) => ({ events: [setOf(`t${i % 7}`, `k${i % 11}`)], expects: [] }),
    );
    const outcomes = await world.request(...requests);
    requests.forEach(({ events }, i) => world.accepted(events, outcomes[i]!));
    await world.append(...Array.from({ length: 600 }, (_, i) => setOf(`t${i % 5}`, `k${i % 13}`)));
    await world.pause();
    const read = await world.backend.read({ after: 0, to: 900, limit: 1000 });
    assert.deepEqual(read, Array.from({ length: 900 }, (_, i) => world.stored.get(i + 1)));
  },
};
