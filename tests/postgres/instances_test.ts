/**
 * Instances of an app on several machines: what one appends, the others read, follow and build on. A proxy before the
 * server makes two logs of one process strangers to each other.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { defineProjection, type Log, openLog } from "../../mod.ts";
import { describeOnServer, onSchema } from "../support/postgres_log.ts";
import { all, sleep, until } from "../support/scratch.ts";
import { TcpProxy } from "../support/tcp_proxy.ts";

/** A test body that is given two logs on one schema that don't know of each other. */
function onTwo(body: (one: Log, other: Log) => Promise<void>): () => Promise<void> {
  return onSchema(async ({ schema, url }) => {
    const { proxy, url: through } = await TcpProxy.before(url);
    try {
      await using one = await openLog(url, { schema });
      await using other = await openLog(through, { schema });
      await body(one, other);
    } finally {
      await proxy.close();
    }
  });
}

describeOnServer("instances", () => {
  it(
    "A34: a read after a pause of 250 ms looks first, and refresh() misses nothing",
    onTwo(async (one, other) => {
      for (let i = 0; i < 10; i++) {
        await one.thread("t").put("k", i);
        await other.refresh();
        assert.equal(await other.thread("t").get("k"), i);
        await other.thread("t").put("l", i);
        // A read after a pause looks first.
        await sleep(260);
        assert.equal(await one.thread("t").get("l"), i);
      }
      await one.thread("t").put("k", "last");
      // Reads that follow each other closely come to see it, too.
      await until(async () => await other.thread("t").get("k") === "last");
    }),
  );

  it(
    "a subscription follows another instance, and gets every event once, in order",
    onTwo(async (one, other) => {
      const count = 100;
      let seen = 0;
      const following = (async () => {
        for await (const { position } of other.subscribe()) {
          assert.equal(position, ++seen);
          if (position === count) break;
        }
      })();
      for (let i = 1; i <= count; i++) {
        await one.thread(`t${i % 3}`).put("k", i);
        await sleep(i % 20);
      }
      // How long it takes is measured elsewhere: a test that is timed fails where the machine is busy.
      await following;
      assert.equal(seen, count);
    }),
  );

  it(
    "updates by two instances on one key lose nothing",
    onTwo(async (one, other) => {
      await one.thread("t").put("k", { n: 0 });
      await other.refresh();
      await Promise.all([one, other].map(async (log) => {
        for (let i = 0; i < 25; i++) await log.thread<{ k: { n: number } }>("t").update("k", (draft) => void draft.n++);
      }));
      await one.refresh();
      assert.deepEqual(await one.thread("t").get("k"), { n: 50 });
      assert.equal((await one.thread("t").head())?.version, 51);
    }),
  );

  it(
    "what one erases is gone for the other, and a fork keeps its share",
    onTwo(async (one, other) => {
      await one.thread("t").put("k", 1);
      await one.thread("t").put("k", 2);
      await other.refresh();
      await other.thread("t").fork("f", { at: 1 });
      await one.erase("t");
      await other.refresh();
      assert.equal(await other.thread("t").get("k"), undefined);
      assert.equal(await other.thread("f").get("k"), 1);
      assert.deepEqual((await all(other.read())).map(({ position }) => position), [1, 3, 4]);
      assert.ok((await other.verify()).ok);
    }),
  );

  it(
    "a projection is folded by all alike",
    onTwo(async (one, other) => {
      const counter = () =>
        defineProjection({ name: "count", version: 1, initial: () => 0, evolve: (state: number) => state + 1 });
      const [mine, yours] = await Promise.all([one.project(counter()), other.project(counter())]);
      for (let i = 0; i < 20; i++) await (i % 2 ? one : other).thread("t").append("happened", i);
      await Promise.all([one.refresh(), other.refresh()]);
      assert.deepEqual([await mine.state(), await yours.state()], [20, 20]);
    }),
  );
});
