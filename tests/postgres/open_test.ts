/**
 * Opening a log on a server: what is made, by however many at once, and what is refused, with nothing changed.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { openLog } from "../../mod.ts";
import { MemoryBackend } from "../../backends/memory/memory_backend.ts";
import { PostgresBackend } from "../../backends/postgres/postgres_backend.ts";
import { at, forkOf, inputOf, setOf } from "../contract/world.ts";
import { postgresUrl } from "../support/backends.ts";
import { describeOnServer, onSchema, ownServer, type Place } from "../support/postgres_log.ts";
import { all, refused } from "../support/scratch.ts";

/** What there is in the schema, as one text. */
async function described({ sql, schema }: Place): Promise<string> {
  const rows = await sql`
    SELECT 'relation ' || relname AS line FROM pg_class WHERE relnamespace = ${schema}::text::regnamespace
    UNION ALL SELECT 'function ' || oid::regprocedure FROM pg_proc WHERE pronamespace = ${schema}::text::regnamespace
    ORDER BY 1`;
  return rows.map(({ line }) => line).join("\n");
}

describeOnServer("opening", () => {
  it(
    "A33: 8 instances set up one empty database at once",
    onSchema(async (place) => {
      const backends = await Promise.all(Array.from({ length: 8 }, () => place.open()));
      await Promise.all(backends.map((backend, i) => backend.append([{ events: [setOf(`t${i}`, "k")], expects: [] }])));
      assert.equal((await backends[0]!.head()).position, 8);
      await Promise.all(backends.map((backend) => backend.close()));
    }),
  );

  it(
    "A33: 8 instances find it half made, and finish it",
    onSchema(async (place) => {
      await (await place.open()).close();
      const whole = await described(place);
      for (
        const damage of [
          "DELETE FROM meta; DROP TABLE bases, states; DROP FUNCTION append, purge",
          "DROP TABLE meta, lanes",
          "DELETE FROM meta WHERE name = 'format'; DROP VIEW stored CASCADE; DROP INDEX events_key",
        ]
      ) {
        await place.sql.unsafe(damage);
        const backends = await Promise.all(Array.from({ length: 8 }, () => place.open()));
        assert.equal(await described(place), whole, damage);
        const [outcome] = await backends[3]!.append([{ events: [setOf("t", "k")], expects: [] }]);
        assert.equal(outcome!.kind, "appended", damage);
        await Promise.all(backends.map((backend) => backend.close()));
      }
    }),
  );

  it(
    "a newer format and another codec are refused, and so is a schema of somebody else's",
    onSchema(async (place) => {
      const { schema, sql, url } = place;
      await (await openLog(url, { schema })).close();
      const codec = {
        encode: (value: unknown) => new TextEncoder().encode(JSON.stringify(value)),
        decode: (bytes: Uint8Array): unknown => JSON.parse(new TextDecoder().decode(bytes)),
      };
      const error = await refused("codec_mismatch", () => openLog(url, { schema, codec }));
      assert.doesNotMatch(error.message, /threadlog@/);
      await sql`UPDATE meta SET value = '2' WHERE name = 'format'`;
      await refused("newer_format", () => openLog(url, { schema }));
      await sql`DROP TABLE meta CASCADE`;
      await sql`CREATE TABLE invoices (id int)`;
      const before = await described(place);
      await refused("not_a_log", () => openLog(url, { schema }));
      await sql`CREATE TABLE meta (name text, amount int)`;
      await refused("not_a_log", () => openLog(url, { schema }));
      await sql`DROP TABLE meta`;
      assert.equal(await described(place), before);
    }),
  );

  it(
    "a log that is not there is not made for a reader, and a reader changes nothing",
    onSchema(async ({ schema, sql, url }) => {
      await refused("not_found", () => openLog(url, { schema, readOnly: true }));
      assert.deepEqual([...await sql`SELECT 1 FROM pg_namespace WHERE nspname = ${schema}`], []);
      await using log = await openLog(url, { schema });
      await log.thread("t").put("k", 1);
      await using reader = await openLog(url, { schema, readOnly: true });
      assert.equal(await reader.thread("t").get("k"), 1);
      await refused("read_only", () => reader.thread("t").put("k", 2));
      await refused("read_only", () => reader.erase("t"));
      await log.thread("t").put("k", 3);
      await reader.refresh();
      assert.equal(await reader.thread("t").get("k"), 3);
    }),
  );

  it("names that can't be a schema's, a server that is not there, a database that is not", async () => {
    for (const schema of ["", "pg_x", 'a"b', "a'b", "x".repeat(64), "a.b", "ä", "\0"]) {
      await refused("invalid_argument", () => openLog(postgresUrl!, { schema }));
    }
    await refused("invalid_argument", () => openLog(postgresUrl!, { schema: 7 as never }));
    const gone = new URL(postgresUrl!);
    gone.password = "secret";
    gone.port = "1";
    const error = await refused("storage", () => openLog(gone.href));
    assert.doesNotMatch(`${error.message} ${error.place}`, /secret|threadlog@/);
    const other = new URL(postgresUrl!);
    other.pathname = "/nobody";
    await refused("not_found", () => openLog(other.href));
    await refused("unsupported", () => openLog("mysql://user:secret@host/db"));
  });

  it(
    "a server that acknowledges before it is durable is refused for full durability",
    onSchema(async ({ schema, url }) => {
      const weak = new URL(url);
      weak.searchParams.set("synchronous_commit", "off");
      const error = await refused("storage", () => openLog(weak.href, { schema }));
      assert.match(error.remedy!, /synchronous_commit = on/);
      await using log = await openLog(weak.href, { schema, durability: "normal" });
      await log.thread("t").put("k", 1);
    }),
  );

  it("fsync = off is refused for full durability", async () => {
    const server = await ownServer({ fsync: "off" });
    try {
      assert.match((await refused("storage", () => openLog(server.url))).remedy!, /fsync = on/);
      await (await openLog(server.url, { durability: "normal" })).close();
    } finally {
      await server.end();
    }
  });
});

describeOnServer("values and names", () => {
  it(
    "A32: U+0000 in a value, a key, metadata and every name",
    onSchema(async ({ schema, url }) => {
      const value = { "a\0b": ["\0", "c\0"] };
      {
        await using log = await openLog(url, { schema });
        const thread = log.thread(["t\0", "\0"]);
        await thread.put("k\0", value, { id: "id\0", meta: { by: "\0" } });
        await thread.append("type\0", value);
      }
      await using log = await openLog(url, { schema });
      const thread = log.thread(["t\0", "\0"]);
      assert.deepEqual(await thread.get("k\0"), value);
      const [put, app] = await all(thread.replay());
      assert.deepEqual([put!.id, put!.meta, app!.type, app!.value], ["id\0", { by: "\0" }, "type\0", value]);
      assert.ok((await log.verify()).ok);
    }),
  );

  it(
    "names longer than an index has room for are told apart, found and ordered",
    onSchema(async (place) => {
      const backend: PostgresBackend = await place.open();
      const long = "😀".repeat(1000);
      // Alike in their first 1,000 bytes, or exactly as long as those.
      const keys = ["a".repeat(999), "a".repeat(1000), `${"a".repeat(1000)}b`, `${"a".repeat(4000)}`, long, `${long}x`]
        .sort();
      keys.push("b");
      keys.sort();
      const labels = [long, `${long}1`, `${long}2`, "z"];
      for (const label of labels) {
        for (const key of [...keys].reverse()) {
          for (let i = 0; i < 2; i++) {
            await backend.append([{
              events: [setOf([label, "t"], key, { id: `${key.slice(0, 4000)}${i}` })],
              expects: [],
            }]);
          }
        }
      }
      const { position } = await backend.head();
      for (const label of labels) {
        const path = at([label, "t"]);
        for (const reverse of [false, true]) {
          const expected = reverse ? [...keys].reverse() : keys;
          const range = { prefix: "", after: undefined, limit: 100, reverse };
          const found = await backend.entries(path, { position }, range);
          assert.deepEqual(found.map(([event]) => event!.key), expected);
          for (const [i, after] of expected.entries()) {
            const rest = await backend.entries(path, { position }, { ...range, after, limit: 2 });
            assert.deepEqual(rest.map(([event]) => event!.key), expected.slice(i + 1, i + 3));
          }
          const below = await backend.entries(path, { position }, { ...range, prefix: "a".repeat(1000) });
          assert.deepEqual(
            below.map(([event]) => event!.key),
            expected.filter((key) => key.startsWith("a".repeat(1000))),
          );
        }
        for (const key of keys) {
          assert.equal((await backend.entry(path, key, { position }))[0]!.key, key);
          assert.equal((await backend.byId(path, `${key.slice(0, 4000)}1`))?.key, key);
        }
      }
      const paths = labels.map((label) => at([label, "t"]) as string).sort();
      for (let i = 0; i <= paths.length; i++) {
        const page = await backend.threads({
          prefix: "",
          after: i === 0 ? undefined : paths[i - 1] as never,
          limit: 2,
          at: position,
        });
        // UTF-16 and code points order these alike.
        assert.deepEqual(page.map(({ path }) => path), [...paths].sort().slice(i, i + 2));
      }
      await backend.close();
    }),
  );

  it(
    "the latest entry is found far back, as in memory",
    onSchema(async (place) => {
      const memory = new MemoryBackend({ codecId: "c", now: () => 5, payloadBytes: 1 << 20, maxValueBytes: 1 << 20 });
      const server = await place.open({ now: () => 5 });
      const events = [
        ...["gone", "a", "z", "b"].map((key) => setOf("t", key)),
        inputOf({ path: at("t"), type: "delete", key: "gone" }),
        ...Array.from({ length: 200 }, () => setOf("t", "c")),
        forkOf("t", 205, "child"),
        ...["c", "b", "z", "z", "a"].map((key) => inputOf({ path: at("child"), type: "delete", key })),
        inputOf({ path: at("t"), type: "delete", key: "c" }),
      ];
      for (const event of events) {
        const request = [{ events: [event], expects: [] }];
        assert.deepEqual(await server.append(request), await memory.append(request));
      }
      await server.close();
    }),
  );

  it(
    "what was erased is gone from the tables' files",
    onSchema(async ({ schema, sql, url }) => {
      await using log = await openLog(url, { schema });
      const secret = "a secret that nobody shall find";
      await log.thread("t").put("k", secret);
      await log.thread("other").put("k", "kept");
      const read = async () => {
        await sql`CHECKPOINT`;
        const [row] = await sql`
          SELECT position(${secret}::text::bytea in pg_read_binary_file(pg_relation_filepath('events'))) AS found`;
        return row!.found > 0;
      };
      assert.equal(await read(), true);
      await log.erase("t", { scrub: false });
      assert.equal(await read(), true);
      await log.compact();
      assert.equal(await read(), false);
      assert.equal(await log.thread("other").get("k"), "kept");
    }),
  );

  it(
    "compacting waits for transactions that could still look at what was erased, and says so if they do not end",
    onSchema(async ({ schema, sql, url }) => {
      await using log = await openLog(url, { schema, busyTimeoutMs: 300 });
      await log.thread("t").put("k", 1);
      const other = await sql.reserve();
      await other`BEGIN ISOLATION LEVEL REPEATABLE READ`;
      await other`SELECT count(*) FROM events`;
      await log.erase("t", { scrub: false });
      await refused("busy", () => log.compact());
      await other`COMMIT`;
      other.release();
      await log.compact();
    }),
  );
});
