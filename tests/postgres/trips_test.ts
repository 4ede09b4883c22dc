/**
 * One call of the port is one round trip, counted by a proxy.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { Backend } from "../../log/backend.ts";
import { openLog } from "../../mod.ts";
import { at, forkOf, setOf } from "../contract/world.ts";
import { describeOnServer, onSchema } from "../support/postgres_log.ts";
import { TcpProxy } from "../support/tcp_proxy.ts";

const path = at("t");
const child = at("child");
const RANGE = { prefix: "", after: undefined, limit: 50, reverse: false };
let next = 0;

const CALLS: Readonly<Record<string, (backend: Backend) => Promise<unknown>>> = {
  "append": (backend) =>
    backend.append(
      Array.from({ length: 20 }, () => ({ events: [setOf(`n${next++}`, "k"), setOf("t", "k")], expects: [] })),
    ),
  "append, refused": (backend) =>
    backend.append([
      { events: [setOf("t", "k")], expects: [{ path, version: 999 }] },
      { events: [setOf("t", "k", { id: "first" })], expects: [] },
      { events: [forkOf("nobody", 3, "n")], expects: [] },
    ]),
  "head": (backend) => backend.head(),
  "thread": (backend) => backend.thread(child, { version: 2 }),
  "threads": (backend) => backend.threads({ prefix: "", after: undefined, limit: 20, at: 30 }),
  "entry": (backend) => backend.entry(child, "k", { position: 20 }),
  "latest": (backend) => backend.latest(child, { version: 2 }),
  "entries": (backend) => backend.entries(child, { position: 20 }, RANGE),
  "history": (backend) => backend.history(child, { from: 1, to: 9, limit: 9, reverse: true }),
  "read": (backend) => backend.read({ after: 0, to: 99, limit: 50 }),
  "byId": (backend) => backend.byId(path, "first"),
  "positionAt": (backend) => backend.positionAt(Date.now(), 40),
  "loadState": (backend) => backend.loadState("p"),
  "saveState": (backend) => backend.saveState("p", { version: 1, position: 3, state: new Uint8Array(9) }),
  "purge": (backend) => backend.purge(),
  "stats": (backend) => backend.stats(),
};

describeOnServer("round trips", () => {
  it(
    "each call of the port makes one",
    onSchema(async (place) => {
      const { proxy, url } = await TcpProxy.before(place.url);
      const backend = await place.open({}, url);
      await backend.append([{ events: [setOf("t", "k", { id: "first" })], expects: [] }]);
      await backend.append([{ events: [forkOf("t", 1, "child"), setOf("child", "l")], expects: [] }]);
      for (const [name, call] of Object.entries(CALLS)) {
        // The first time on a connection, the driver asks for the types. There are three for reads.
        await Promise.all([call(backend), call(backend), call(backend), call(backend)]);
        await call(backend);
        const before = proxy.trips;
        for (let i = 0; i < 5; i++) await call(backend);
        assert.equal(proxy.trips - before, 5, name);
      }
      await backend.close();
      await proxy.close();
    }),
  );

  it(
    "reading what is in memory makes none, and appending makes one",
    onSchema(async ({ schema, url }) => {
      const through = await TcpProxy.before(url);
      await using log = await openLog(through.url, { schema });
      const thread = log.thread("t");
      for (let i = 0; i < 5; i++) await thread.put("k", i);
      const start = performance.now();
      const before = through.proxy.trips;
      for (let i = 0; i < 200; i++) assert.equal(await thread.get("k"), 4);
      const looks = Math.ceil((performance.now() - start) / 50);
      assert.ok(through.proxy.trips - before <= looks, `${through.proxy.trips - before} trips, ${looks} looks`);
      const trips = through.proxy.trips;
      await Promise.all(Array.from({ length: 100 }, (_, i) => thread.put("k", i)));
      assert.equal(through.proxy.trips - trips <= 3, true, `${through.proxy.trips - trips} trips`);
      await through.proxy.close();
    }),
  );
});
