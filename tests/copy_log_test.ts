/** Copying a log to another place: everything stays as it is, whatever happens meanwhile. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { copyLog, type Event, type Log, openLog, type ThreadId } from "../mod.ts";
import { parseThreadId } from "../log/ids.ts";
import { coreOf } from "../log/log.ts";
import { postgresUrl } from "./support/backends.ts";
import { runs, seed } from "./support/seed.ts";
import { all, inFolder, onEach, refused, seeded, sleep } from "./support/scratch.ts";

/** Threads to use in random histories: some are below others. */
const IDS: readonly ThreadId[] = ["a", "b", ["a", "b"], ["a", "b", "c"], "🧵", "d", "e", ["e", "f"]];

let ids = 0;

/** Does random things to a log: forks of forks, restores, erasures of parents and of children among them. */
async function grow(log: Log, random: () => number, steps: number): Promise<void> {
  const pick = <T>(items: readonly T[]) => items[Math.floor(random() * items.length)]!;
  const text = () => "x".repeat(Math.floor(random() ** 4 * 3000)) + Math.floor(random() * 1e6);
  for (let step = 0; step < steps; step++) {
    const id = pick(IDS);
    const thread = log.thread(id);
    const { version } = await thread.head();
    const key = pick(["k", "l", "m"]);
    const act = random();
    try {
      if (act < 0.3) await thread.put(key, { text: text(), list: [step] }, random() < 0.4 ? { id: `id${++ids}` } : {});
      else if (act < 0.45) {
        await thread.update(key, (draft: { list: number[] }) => void draft.list.push(step), { initial: { list: [] } });
      } else if (act < 0.52) await thread.delete(key, { meta: { why: step } });
      else if (act < 0.62) await thread.append("said", { text: text() });
      else if (act < 0.72) {
        await log.batch((batch) => {
          batch.thread(id).put("n", step);
          batch.thread(pick(IDS)).append("also", step);
        });
      } else if (act < 0.84) {
        await thread.fork(["fork", `${step}`, pick(["", "x"])], { at: Math.ceil(random() * version) });
      } else if (act < 0.9) await thread.restore(Math.ceil(random() * version));
      else if (act < 0.95) await thread.erase({ scrub: false });
      else {
        // A fork of a fork, or the end of one.
        const forks = await all(log.threads({ prefix: "fork" }));
        if (forks.length === 0) continue;
        const fork = log.thread(pick(forks).thread);
        if (random() < 0.5) await fork.erase({ scrub: false });
        else await fork.fork(["fork", "of a fork", `${step}`]);
      }
    } catch (error) {
      // What is erased, or not there yet, can't be forked or restored.
      const { code } = error as { code?: string };
      if (!["erased", "not_found", "conflict"].includes(code ?? "")) throw error;
    }
  }
}

/** All that can be known of a log. */
async function everything(log: Log): Promise<unknown> {
  const { backend } = coreOf(log);
  const head = await log.head();
  const events: Event[] = await all(log.read());
  const stored = await backend.read({ after: 0, to: head, limit: 1e6 });
  const threads = await backend.threads({ prefix: "", after: undefined, limit: 1e6, at: head });
  const states: unknown[] = [];
  for (const { thread, version } of await all(log.threads())) {
    for (let at = Math.max(1, version - 12); at <= version; at++) {
      const view = log.thread(thread).at(at);
      const entries = await all(view.entries()).catch((error) => (error as { code: string }).code);
      states.push([thread, at, entries, await view.latest().catch((error) => (error as { code: string }).code)]);
    }
  }
  return {
    head,
    events,
    threads,
    states,
    // Which of them are kept as patches, and on what, is the log's; how bytes are packed is not.
    links: stored.map(({ link, latest, base, form, schema, id }) => [[...link].join(), latest, base, form, schema, id]),
    erased: (await log.stats()).erased,
  };
}

describe("a copy of a log", () => {
  onEach("holds all of it as it was, and goes on", async (log) => {
    const random = seeded(seed);
    await inFolder(async (folder) => {
      for (let run = 0; run < runs(3); run++) {
        await grow(log, random, 60);
        // At the head is something that is there, whoever erases the rest.
        await log.thread("last").put("run", run);
        const original = await everything(log);
        const path = join(folder, `${run}.db`);
        const report = await copyLog(log, path);
        assert.equal(report.position, await log.head());
        await using copy = await openLog(path);
        assert.deepEqual(await everything(copy), original, `seed ${seed}, run ${run}`);
        for (const { id, thread, type, key, value } of await all(log.read())) {
          if (!id.startsWith("id") || type !== "set") continue;
          const known = await coreOf(log).backend.byId(parseThreadId(thread), id);
          if (known === undefined) continue; // its thread is erased, and a fork keeps it
          const again = await copy.thread(thread).put(key as string, value, { id });
          assert.equal(again.position, known.position);
        }
        const next = await copy.thread("a").put("k", "on");
        assert.equal(next.position, report.position + 1);
        assert.ok((await copy.verify()).ok);
        assert.deepEqual(await everything(log), original, "the log is not changed");
      }
    })();
  });

  onEach("is made while the log is in use, and then takes its place", async (log) => {
    const random = seeded(seed + 1);
    await grow(log, random, 80);
    let writing = true;
    let count = 0;
    const writers = (async () => {
      while (writing) {
        await grow(log, random, 5);
        count++;
        await sleep(0);
      }
    })();
    await inFolder(async (folder) => {
      const path = join(folder, "copy.db");
      const seen: number[] = [];
      const report = await copyLog(log, path, {
        onProgress: ({ position, head }) => {
          seen.push(position);
          assert.ok(position <= head);
        },
        switch: async () => {
          await sleep(30);
          writing = false;
          await writers;
        },
      });
      assert.ok(count > 0 && seen.length > 0);
      assert.deepEqual(seen, [...seen].sort((a, b) => a - b));
      assert.equal(report.position, await log.head());
      await using copy = await openLog(path);
      assert.deepEqual(await everything(copy), await everything(log));
      assert.ok((await copy.verify()).ok);
    })();
  });

  onEach("is gone on with where it was cut short, erasures included", async (log) => {
    for (let i = 0; i < 700; i++) await log.thread(i % 2 === 0 ? "even" : "odd").put(`k${i % 9}`, { i });
    await log.thread("even").fork("child", { at: 100 });
    await inFolder(async (folder) => {
      const path = join(folder, "copy.db");
      const stop = new AbortController();
      const cut = copyLog(log, path, { signal: stop.signal, onProgress: () => stop.abort() });
      await assert.rejects(cut, { name: "AbortError" });
      {
        await using part = await openLog(path);
        const head = await part.head();
        assert.ok(head > 0 && head < 701, `${head}`);
      }
      await log.thread("even").erase({ scrub: false });
      await log.thread("odd").put("k", "new");
      await copyLog(log, path);
      await copyLog(log, path); // there is nothing to do
      await using copy = await openLog(path);
      assert.deepEqual(await everything(copy), await everything(log));
      assert.equal((await copy.thread("child").at(100).get("k0") as { i: number }).i % 2, 0);
    })();
  });

  onEach("is not made over something else", async (log) => {
    await log.thread("a").put("k", 1);
    await log.thread("a").put("k", 2);
    await inFolder(async (folder) => {
      const path = join(folder, "other.db");
      {
        await using other = await openLog(path, { now: () => 5 });
        await other.thread("a").put("k", 1);
      }
      const error = await refused("conflict", () => copyLog(log, path));
      assert.match(error.message, /position 1/);
      const longer = join(folder, "longer.db");
      await copyLog(log, longer);
      {
        await using copy = await openLog(longer);
        await copy.thread("a").put("k", 3);
      }
      assert.match((await refused("conflict", () => copyLog(log, longer))).message, /position 3/);
      await refused("invalid_argument", () => copyLog(log, ":memory:"));
      await refused("invalid_argument", () => copyLog(log, path, { switch: 1 as never }));
      await refused("invalid_argument", () => copyLog(log, path, { unknown: 1 } as never));
      await using again = await openLog(path);
      assert.equal(await again.head(), 1);
    })();
  });
});

describe("a copy on a server", { skip: postgresUrl === undefined && "there is no server" }, () => {
  it(
    "and back is what it was",
    inFolder(async (folder) => {
      const { emptySchema } = await import("./support/postgres_log.ts");
      const random = seeded(seed + 2);
      await using log = await openLog(join(folder, "log.db"), { durability: "normal" });
      for (let run = 0; run < runs(2); run++) {
        await grow(log, random, 80);
        await log.thread("last").put("run", run);
        const original = await everything(log);
        const schema = await emptySchema();
        await copyLog(log, postgresUrl!, { schema });
        await using there = await openLog(postgresUrl!, { schema });
        assert.deepEqual(await everything(there), original, `seed ${seed + 2}, run ${run}`);
        const back = join(folder, `back${run}.db`);
        await copyLog(there, back);
        await using again = await openLog(back);
        assert.deepEqual(await everything(again), original);
        const next = await there.thread("a").put("k", "on");
        assert.equal(next.position, (original as { head: number }).head + 1);
        assert.ok((await there.verify()).ok);
      }
    }),
  );
});
