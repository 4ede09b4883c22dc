/**
 * Two servers, one of which follows the other: what clients see when the first is gone, and what can be read of the
 * second.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { type Event, type Log, openLog, OutcomeUnknownError } from "../../mod.ts";
import { describeOnServer, onSchema, type OwnServer, ownServer } from "../support/postgres_log.ts";
import { refused, sleep, until } from "../support/scratch.ts";
import { TcpProxy } from "../support/tcp_proxy.ts";

/** A primary and its standby; `settings` are the primary's. */
async function onPair(
  settings: Readonly<Record<string, string>>,
  body: (primary: OwnServer, standby: OwnServer, url: string) => Promise<void>,
): Promise<void> {
  const primary = await ownServer(settings);
  let standby: OwnServer | undefined;
  try {
    standby = await primary.makeStandby({ synchronous_standby_names: "" });
    await until(async () => (await ask(primary, "SELECT FROM pg_stat_replication WHERE state = 'streaming'")) === 1);
    await body(primary, standby, `postgres://threadlog@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`);
  } finally {
    await standby?.end();
    await primary.end();
  }
}

/** Runs a statement; tells how many rows it gave. */
async function ask(server: OwnServer, statement: string): Promise<number> {
  const { default: postgres } = await import("postgres");
  const sql = postgres(server.url, { max: 1, onnotice: () => {} });
  try {
    return (await sql.unsafe(statement)).length;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** Appends 0, 1, 2, ... to a thread until it has `count`. Without ids, nobody but the app can try one again. */
async function write(log: Log, name: string, count: number, acknowledged: string[], ids: boolean): Promise<void> {
  for (let i = 0; i < count;) {
    try {
      await log.thread(name).append("step", i, ids ? { id: `${i}` } : {});
    } catch (error) {
      if (ids || !(error instanceof OutcomeUnknownError)) throw error;
      await log.refresh();
      const { version } = await log.thread(name).head();
      if (version === i) continue;
    }
    acknowledged.push(`${name} ${i++}`);
    await sleep(1);
  }
}

describeOnServer("a fail-over", () => {
  it("to a synchronous standby loses nothing and doubles nothing, and clients go on by themselves", () =>
    onPair({ synchronous_standby_names: "*" }, async (primary, standby, url) => {
      const logs = await Promise.all([1, 2].map(() => openLog(url, { busyTimeoutMs: 20_000 })));
      const stop = new AbortController();
      try {
        const seen: Event[] = [];
        const watching = (async () => {
          for await (const event of logs[1]!.subscribe({ signal: stop.signal })) seen.push(event);
        })();
        const acknowledged: string[] = [];
        const writing = Promise.all(
          logs.flatMap((log, l) => [1, 2].map((n) => write(log, `${l} ${n}`, 60, acknowledged, l === 0))),
        );
        await until(() => acknowledged.length >= 60);
        await primary.stop("SIGQUIT");
        await sleep(200);
        await ask(standby, "SELECT pg_promote(true, 60)");
        await writing;
        assert.equal(acknowledged.length, 240);
        await Promise.all(logs.map((log) => log.refresh()));
        const steps = new Map<string, unknown[]>();
        const positions: number[] = [];
        for await (const event of logs[0]!.read()) {
          positions.push(event.position);
          steps.set(event.thread as string, [...steps.get(event.thread as string) ?? [], event.value]);
        }
        assert.deepEqual(positions, Array.from({ length: 240 }, (_, i) => i + 1));
        for (const values of steps.values()) assert.deepEqual(values, Array.from({ length: 60 }, (_, i) => i));
        await until(() => seen.length >= 240);
        assert.deepEqual(seen.map(({ position }) => position), positions);
        assert.ok((await logs[0]!.verify()).ok);
        stop.abort();
        await watching;
      } finally {
        stop.abort();
        await Promise.all(logs.map((log) => log.close()));
      }
    }));

  it(
    "makes an append again where it can't be doubled, and nowhere else",
    onSchema(async (place) => {
      const { proxy, url } = await TcpProxy.before(place.url);
      // Nobody listens on port 1.
      const two = url.replace(/(@[^/]*)/, "$1,127.0.0.1:1");
      try {
        await using log = await openLog(two, { schema: place.schema });
        const thread = log.thread("t");
        await thread.append("step", 0);
        proxy.fault = "lose the answer";
        await thread.append("step", 1, { id: "1" });
        proxy.fault = "lose the answer";
        await refused("outcome_unknown", () => thread.append("step", 2));
        proxy.fault = "lose the answer";
        const event = await thread.append("step", 3, { id: "3" });
        assert.deepEqual([event.position, await log.head()], [4, 4]);
      } finally {
        await proxy.close();
      }
    }),
  );

  it("to a server that lacks what was acknowledged is noticed", () =>
    onPair({}, async (primary, standby, url) => {
      await using log = await openLog(url, { busyTimeoutMs: 20_000 });
      await log.thread("t").put("k", 1);
      await until(async () => (await ask(standby, "SELECT FROM threadlog.events")) === 1);
      await standby.stop("SIGINT");
      for (const k of [2, 3, 4]) await log.thread("t").put("k", k);
      await primary.stop("SIGQUIT");
      await standby.start();
      await ask(standby, "SELECT pg_promote(true, 60)");
      const error = await refused("storage", () => log.thread("t").put("k", 5));
      assert.match(error.message, /ended at position 4, and now ends at 1/);
      await refused("storage", () => log.refresh());
      await using again = await openLog(url);
      assert.ok((await again.verify()).ok);
    }));

  it("is not needed to read from a standby, which tells how far it is behind", () =>
    onPair({}, async (primary, standby) => {
      await using log = await openLog(primary.url);
      await log.thread("t").put("k", 1);
      await until(async () => (await ask(standby, "SELECT FROM threadlog.events")) === 1);
      await refused("read_only", () => openLog(standby.url));
      await using follower = await openLog(standby.url, { readOnly: true });
      assert.equal(await follower.thread("t").get("k"), 1);
      assert.equal((await log.stats()).lagMs, undefined);
      await until(async () => (await follower.stats()).lagMs === 0);
      await ask(standby, "SELECT pg_wal_replay_pause()");
      await log.thread("t").put("k", 2);
      await until(async () => (await follower.stats()).lagMs! > 0);
      assert.equal(await follower.thread("t").get("k"), 1);
      await ask(standby, "SELECT pg_wal_replay_resume()");
      await until(async () => (await follower.refresh(), await follower.thread("t").get("k") === 2));
    }));
});
