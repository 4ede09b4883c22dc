/**
 * The contract of listings: pages, prefixes and orders, whatever the names; times, holes, and saved states.
 */
import assert from "node:assert/strict";
import type { ThreadId, ThreadPath } from "../../log/ids.ts";
import { byCodePoint } from "../support/log_model.ts";
import { at, bytesOf, inputOf, setOf, type World } from "./world.ts";

/** UTF-16 puts the surrogates of 😀 and U+10000 before U+E000; code points put them last. */
const KEYS = [
  "",
  "\0",
  "\0\0",
  "\x01",
  "%",
  "%a",
  "_",
  "__proto__",
  "a",
  "a\0",
  "a\0b",
  "a%",
  "a_",
  "aa",
  "ab",
  "b",
  "constructor",
  "é",
  "\u{d7ff}",
  "\u{e000}",
  "\u{ffff}",
  "\u{10000}",
  "\u{10000}a",
  "😀",
  "😀😀",
  "\u{10ffff}",
];
const PREFIXES = [
  "",
  "\0",
  "a",
  "a\0",
  "%",
  "_",
  "__",
  "b",
  "c",
  "nothing",
  "\u{e000}",
  "\u{ffff}",
  "😀",
  "\u{10ffff}",
];
const AFTERS = [undefined, ...KEYS, "aaa", "zzz", "\u{fffe}", "\u{10001}"];

/** Everything from page to page. */
async function keysIn(
  world: World,
  path: ThreadPath,
  prefix: string,
  after: string | undefined,
  reverse: boolean,
  limit: number,
) {
  const point = { position: world.model.position };
  const keys: string[] = [];
  for (let from = after; keys.length < 1000;) {
    const page = await world.backend.entries(path, point, { prefix, after: from, limit, reverse });
    keys.push(...page.map(([event]) => event!.key!));
    if (page.length < limit) break;
    from = keys.at(-1);
  }
  return keys;
}

function expectedKeys(keys: readonly string[], prefix: string, after: string | undefined, reverse: boolean): string[] {
  const sorted = keys.filter((key) => key.startsWith(prefix)).sort(byCodePoint);
  if (reverse) sorted.reverse();
  const isBehind = (key: string) => reverse ? byCodePoint(key, after!) < 0 : byCodePoint(key, after!) > 0;
  return after === undefined ? sorted : sorted.filter(isBehind);
}

async function compareListings(world: World, path: ThreadPath): Promise<void> {
  const keys = [...world.model.state(path).keys()];
  for (const prefix of PREFIXES) {
    for (const reverse of [false, true]) {
      for (const after of AFTERS) {
        const expected = expectedKeys(keys, prefix, after, reverse);
        const label = JSON.stringify({ path, prefix, after, reverse });
        for (const limit of after === undefined ? [1, 2, 7, 1000] : [3]) {
          assert.deepEqual(await keysIn(world, path, prefix, after, reverse, limit), expected, label);
        }
      }
    }
  }
}

/** Listing threads from page to page. */
async function threadsIn(world: World, prefix: ThreadPath | "", after: ThreadPath | undefined, limit: number) {
  const paths: string[] = [];
  for (let from = after; paths.length < 10_000;) {
    const page = await world.backend.threads({ prefix, after: from, limit, at: world.model.position });
    paths.push(...page.map(({ path }) => path));
    if (page.length < limit) break;
    from = page.at(-1)!.path;
  }
  return paths;
}

/** Tests by name. */
export const listing: Readonly<Record<string, (world: World) => Promise<void>>> = {
  "entries page through hostile keys in code point order": async (world) => {
    // Written in an order that is neither sorted nor reversed.
    const scattered = KEYS.map((_, i) => KEYS[(i * 7) % KEYS.length]!);
    await world.append(...scattered.map((key) => setOf("t", key)));
    await world.append(setOf("u", "a"), setOf("s", "b"));
    await world.pause();
    await compareListings(world, at("t"));
  },

  "entries page through what forks, restores and deletions left": async (world) => {
    await world.append(...KEYS.filter((_, i) => i % 2 === 0).map((key) => setOf("t", key)));
    await world.append(...KEYS.filter((_, i) => i % 3 === 0).map((key) => setOf("t", key)));
    for (const key of KEYS.filter((_, i) => i % 5 === 0)) await world.delete("t", key);
    const version = world.model.version(at("t"));
    await world.fork("t", version, "child");
    await world.append(...KEYS.filter((_, i) => i % 7 === 0).map((key) => setOf("child", key)));
    for (const key of KEYS.filter((_, i) => i % 4 === 0)) await world.delete("child", key);
    await world.fork("child", version, "sibling");
    await world.set("sibling", "a\0");
    await world.restore("child", 9);
    await world.append(...KEYS.filter((_, i) => i % 6 === 1).map((key) => setOf("child", key)));
    await world.delete("child", "😀");
    await world.fork("child", world.model.version(at("child")), "grandchild");
    await world.delete("grandchild", "a");
    await world.pause();
    for (const id of ["t", "child", "sibling", "grandchild"]) await compareListings(world, at(id));
  },

  "entries page through long runs of deleted and foreign keys": async (world) => {
    const name = (i: number) => String(i).padStart(4, "0");
    await world.append(...Array.from({ length: 700 }, (_, i) => setOf("t", name(i))));
    await world.append(
      ...Array.from({ length: 700 }, (_, i) => i % 100 === 50 ? setOf("t", name(i)) : deletionOf("t", name(i))),
    );
    await world.fork("t", 700, "child");
    await world.append(...Array.from({ length: 5 }, (_, i) => setOf("child", `9${i}`)));
    await world.pause();
    const rest = ["0050", "0150", "0250", "0350", "0450", "0550", "0650"];
    for (const limit of [1, 3, 300, 1000]) {
      assert.deepEqual(await keysIn(world, at("t"), "", undefined, false, limit), rest);
      assert.deepEqual(await keysIn(world, at("t"), "", undefined, true, limit), rest.toReversed());
    }
    const inherited = Array.from({ length: 700 }, (_, i) => name(i));
    const all = [...inherited, "90", "91", "92", "93", "94"];
    assert.deepEqual(await keysIn(world, at("child"), "", undefined, false, 256), all);
    assert.deepEqual(await keysIn(world, at("child"), "", undefined, true, 257), all.toReversed());
    assert.deepEqual(await keysIn(world, at("child"), "9", undefined, true, 2), ["94", "93", "92", "91", "90"]);
    // At a point where the newer keys did not exist.
    const early = await world.backend.entries(at("t"), { version: 3 }, {
      prefix: "",
      after: undefined,
      limit: 10,
      reverse: true,
    });
    assert.deepEqual(early.map(([event]) => event!.key), ["0002", "0001", "0000"]);
  },

  "threads page by whole labels, in the order of their labels": async (world) => {
    const labels = ["", "\0", "\x01", "a", "a\0", "a\0b", "a\x01", "ab", "%", "_", "\u{ffff}", "😀", "__proto__"];
    const ids: ThreadId[] = [
      ...labels,
      ...labels.map((label) => ["a", label]),
      ...labels.map((label) => [label, "b", "c"]),
    ];
    const scattered = ids.map((_, i) => ids[(i * 11) % ids.length]!);
    for (const id of scattered) await world.set(id, "x");
    await world.erase("ab");
    await world.pause();
    const alive = ids.filter((id) => id !== "ab");
    const paths = alive.map((id) => at(id)).sort(byCodePoint);
    // The order of paths is the order of label lists.
    const byLabels = alive.map((id) => typeof id === "string" ? [id] : id).sort(compareLabels).map((id) => at(id));
    assert.deepEqual(paths, byLabels);
    for (const prefix of ["" as const, ...ids.map((id) => at(id)), at("none"), at(["a", "b"])]) {
      const below = paths.filter((path) => path.startsWith(prefix));
      for (const limit of [1, 4, 1000]) assert.deepEqual(await threadsIn(world, prefix, undefined, limit), below);
      for (const after of [...paths, at("none")]) {
        const expected = below.filter((path) => byCodePoint(path, after) > 0);
        assert.deepEqual(await threadsIn(world, prefix, after, 5), expected, JSON.stringify({ prefix, after }));
      }
    }
  },

  "hundreds of erased threads are stepped over": async (world) => {
    const ids = Array.from({ length: 700 }, (_, i) => String(i).padStart(3, "0"));
    await world.append(...ids.map((id) => setOf(id, "x")));
    for (const id of ids) if (id[2] !== "7") await world.bury(id);
    await world.purge();
    await world.pause();
    const left = ids.filter((id) => id[2] === "7").map((id) => at(id));
    for (const limit of [1, 50, 1000]) assert.deepEqual(await threadsIn(world, "", undefined, limit), left);
    assert.equal((await world.backend.stats()).events, 700);
  },

  "a read steps over holes, and its pages are full": async (world) => {
    for (let i = 0; i < 30; i++) await world.set(i % 3 === 0 ? "keep" : "drop", `${i}`);
    await world.erase("drop");
    await world.set("keep", "x");
    await world.pause();
    const kept = world.model.kept().map(({ position }) => position);
    for (let after = 0; after <= 33; after++) {
      for (const to of [0, 5, 20, 32, 40]) {
        for (const limit of [1, 4, 100]) {
          const page = await world.backend.read({ after, to, limit });
          const expected = kept.filter((position) => position > after && position <= to).slice(0, limit);
          assert.deepEqual(page.map(({ position }) => position), expected, JSON.stringify({ after, to, limit }));
        }
      }
    }
  },

  "the position at a time, with equal times and with holes": async (world) => {
    const start = world.now;
    const times = [0, 0, 0, 5, 5, 9, 9, 9, 9, 20, 20, 30];
    for (const [i, time] of times.entries()) {
      world.now = start + time;
      await world.set(i % 4 === 1 ? "drop" : "keep", "x");
    }
    const compare = async () => {
      await world.pause();
      for (let time = -1; time <= 32; time++) {
        for (let to = 0; to <= world.model.position; to++) {
          const position = await world.backend.positionAt(start + time, to);
          assert.ok(position >= 0 && position <= to);
          for (const event of world.model.kept()) {
            if (event.position > to) continue;
            const label = `time ${time}, to ${to}: ${position}`;
            assert.equal(event.position <= position, event.time <= start + time, label);
          }
        }
      }
    };
    await compare();
    await world.erase("drop");
    await compare();
    await world.erase("keep");
    await compare();
    assert.equal(await world.backend.positionAt(0, world.model.position), await world.backend.positionAt(1, 14));
  },

  "states are kept until a tombstone comes": async (world) => {
    const state = { version: 3, position: 1, state: bytesOf("one") };
    await world.set("a", "x");
    assert.equal(await world.backend.loadState("p"), undefined);
    await world.backend.saveState("p", state);
    await world.backend.saveState("__proto__", { ...state, version: 4 });
    await world.backend.saveState("p\0", { ...state, version: 5 });
    await world.backend.saveState("p", { ...state, position: 0, state: bytesOf("two") });
    await world.pause();
    assert.deepEqual(await world.backend.loadState("p"), { ...state, position: 0, state: bytesOf("two") });
    assert.equal((await world.backend.loadState("__proto__"))?.version, 4);
    assert.equal((await world.backend.loadState("p\0"))?.version, 5);
    await world.bury("a");
    for (const name of ["p", "__proto__", "p\0"]) assert.equal(await world.backend.loadState(name), undefined);
    await world.pause();
    // A state from before the tombstone comes too late.
    await world.backend.saveState("p", state);
    assert.equal(await world.backend.loadState("p"), undefined);
    await world.backend.saveState("p", { ...state, position: 2 });
    assert.equal((await world.backend.loadState("p"))?.position, 2);
    await world.set("a", "y");
    await world.purge();
    await world.pause();
    assert.equal((await world.backend.loadState("p"))?.position, 2);
  },

  "the engine finds nothing wrong": async (world) => {
    await world.set("a", "x");
    await world.erase("a");
    await world.pause();
    assert.deepEqual(await world.backend.integrity(), []);
    assert.notEqual((await world.backend.stats()).engine, "");
    await world.backend.close();
    await world.backend.close();
    assert.equal(world.backend.readOnly, false);
  },
};

function deletionOf(id: ThreadId, key: string) {
  return inputOf({ path: at(id), type: "delete", key });
}

function compareLabels(a: readonly string[], b: readonly string[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const order = byCodePoint(a[i]!, b[i]!);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}
