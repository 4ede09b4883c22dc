/**
 * What goes wrong between a log and its server: each call ends with a typed error that says whether it may have been
 * kept, the next one finds its way, and a retry under the same id is kept once.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { type Log, openLog, OutcomeUnknownError } from "../../mod.ts";
import { setOf } from "../contract/world.ts";
import { describeOnServer, onSchema, ownServer, type Place } from "../support/postgres_log.ts";
import { refused, seeded, sleep, until } from "../support/scratch.ts";
import { TcpProxy } from "../support/tcp_proxy.ts";

/** A test body that is given a log behind a proxy. */
function onProxy(body: (log: Log, proxy: TcpProxy, place: Place) => Promise<void>): () => Promise<void> {
  return onSchema(async (place) => {
    const { proxy, url } = await TcpProxy.before(place.url);
    try {
      await using log = await openLog(url, { schema: place.schema, busyTimeoutMs: 300 });
      await log.thread("t").put("k", 0);
      await body(log, proxy, place);
    } finally {
      await proxy.close();
    }
  });
}

/** Tries again under the same id until it is told. */
async function insist(log: Log, id: string, value: number): Promise<void> {
  for (let tries = 1;; tries++) {
    try {
      await log.thread("t").put("k", value, { id });
      return;
    } catch (error) {
      if (!(error instanceof OutcomeUnknownError) || tries > 20) throw error;
    }
  }
}

/** Exactly the values 0 to n were kept, each once. */
async function holds(log: Log, n: number): Promise<void> {
  await log.refresh();
  const values: unknown[] = [];
  for await (const { value } of log.thread("t").replay()) values.push(value);
  assert.deepEqual(values, Array.from({ length: n + 1 }, (_, i) => i));
  assert.equal(await log.head(), n + 1);
  assert.ok((await log.verify()).ok);
}

/** Appends 1 to n, and does something in the middle of each: sooner or later than it takes. */
async function disturb(log: Log, n: number, something: () => unknown): Promise<void> {
  const random = seeded(n);
  let usual = 5;
  for (let i = 1; i <= n; i++) {
    const start = performance.now();
    const appended = insist(log, `${i}`, i);
    if (i % 3 === 0) {
      await sleep(usual);
    } else {
      await sleep(random() * 1.5 * usual);
      await something();
    }
    await appended;
    if (i % 3 === 0) usual = Math.min(100, performance.now() - start);
  }
}

describeOnServer("faults", () => {
  it(
    "an answer that is lost after the commit, and a request that is lost before",
    onProxy(async (log, proxy) => {
      for (let i = 1; i <= 10; i += 2) {
        proxy.fault = "lose the answer";
        const error = await refused("outcome_unknown", () => log.thread("t").put("k", i, { id: `${i}` }));
        assert.deepEqual((error as OutcomeUnknownError).ids, [`${i}`]);
        await insist(log, `${i}`, i);
        proxy.fault = "cut before";
        await refused("outcome_unknown", () => log.thread("t").put("k", i + 1, { id: `${i + 1}` }));
        await insist(log, `${i + 1}`, i + 1);
      }
      await holds(log, 10);
    }),
  );

  it(
    "connections that are cut at any moment: reads are asked again, appends are kept once",
    onProxy(async (log, proxy) => {
      await disturb(log, 60, () => proxy.cut());
      proxy.cut();
      assert.equal(await log.thread("t").at(1).get("k"), 0);
      await holds(log, 60);
    }),
  );

  it(
    "pg_terminate_backend at any moment",
    onSchema(async ({ schema, sql, url }) => {
      const own = new URL(url);
      own.searchParams.set("application_name", schema);
      await using log = await openLog(own.href, { schema });
      await log.thread("t").put("k", 0);
      await disturb(log, 40, async () => {
        await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ${schema}`;
      });
      await holds(log, 40);
    }),
  );

  it(
    "a server that says nothing more: the call ends, and the next one goes over a new connection",
    onSchema(async (place) => {
      const { proxy, url } = await TcpProxy.before(place.url);
      const backend = await place.open({ answerMs: 2000 }, url);
      const append = () => backend.append([{ events: [setOf("t", "k", { id: "1" })], expects: [] }]);
      await backend.append([{ events: [setOf("t", "k")], expects: [] }]);
      await backend.head();
      proxy.freeze();
      await refused("outcome_unknown", append);
      assert.equal((await append())[0]!.kind, "appended");
      proxy.freeze();
      assert.equal((await backend.head()).position, 2);
      await backend.close();
      await proxy.close();
    }),
  );

  it(
    "a full disk is said to be one, and nothing was kept",
    onSchema(async ({ schema, sql, url }) => {
      await using log = await openLog(url, { schema });
      await log.thread("t").put("k", 0);
      // The server's own error, at the place where it would come.
      await sql.unsafe(`
        CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
        CREATE TRIGGER full_disk AFTER INSERT ON events EXECUTE FUNCTION full_disk()`);
      const error = await refused("storage", () => log.thread("t").put("k", 99));
      assert.match(error.what, /disk is full/);
      await sql`DROP TRIGGER full_disk ON events`;
      await log.thread("t").put("k", 1);
      await holds(log, 1);
    }),
  );

  it(
    "a lock that is held for too long is busy, and nothing was kept",
    onProxy(async (log, _proxy, { sql }) => {
      for (const lock of ["SELECT FROM lanes FOR UPDATE", "SELECT FROM threads FOR UPDATE", "LOCK TABLE events"]) {
        await sql.begin(async (holder) => {
          await holder.unsafe(lock);
          await refused("busy", () => log.thread("t").put("k", 99));
        });
      }
      await log.thread("t").put("k", 1);
      await holds(log, 1);
    }),
  );

  it(
    "statement_timeout is busy, too",
    onSchema(async (place) => {
      const { schema, sql, url } = place;
      const hurried = new URL(url);
      hurried.searchParams.set("statement_timeout", "2000");
      await using log = await openLog(hurried.href, { schema });
      await log.thread("t").put("k", 0);
      await sql.begin(async (holder) => {
        await holder.unsafe("SELECT FROM lanes FOR UPDATE");
        await refused("busy", () => log.thread("t").put("k", 99));
      });
      await log.thread("t").put("k", 1);
      await holds(log, 1);
    }),
  );

  it("a server that is stopped and started again, in good order and by a crash", async () => {
    const server = await ownServer();
    try {
      await using log = await openLog(server.url);
      await log.thread("t").put("k", 0);
      let i = 0;
      for (const signal of ["SIGINT", "SIGQUIT"] as const) {
        await server.stop(signal);
        for (let tries = 0; tries < 2; tries++) {
          const error = await refused(undefined, () => log.thread("t").put("k", 99, { id: `${i + 1}` }));
          assert.ok(["storage", "outcome_unknown"].includes(error.code), error.code);
        }
        await sleep(300);
        await refused("storage", () => log.thread("t").get("k"));
        await server.start();
        await insist(log, `${++i}`, i);
        await holds(log, i);
      }
    } finally {
      await server.end();
    }
  });

  it(
    "an append that is ended while it waits leaves nothing",
    onSchema(async (place) => {
      const backend = await place.open();
      await place.sql.begin(async (holder) => {
        await holder.unsafe("SELECT FROM lanes FOR UPDATE");
        const waiting = assert.rejects(backend.append([{ events: [setOf("lost", "k")], expects: [] }]), {
          code: "outcome_unknown",
        });
        await until(async () => {
          const [row] = await place.sql`
            SELECT count(pg_terminate_backend(pid))::int FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND query LIKE ${`%${place.schema}%append%`}`;
          return row!.count === 1;
        });
        await waiting;
      });
      const [outcome] = await backend.append([{ events: [setOf("t", "k")], expects: [] }]);
      assert.deepEqual(outcome!.kind, "appended");
      assert.deepEqual((await backend.head()).position, 1);
      await backend.close();
    }),
  );
});
