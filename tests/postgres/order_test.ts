/**
 * Positions become visible in their order: whoever reads on from the last position they saw misses nothing.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { it } from "node:test";
import type postgres from "postgres";
import type { PostgresBackend } from "../../backends/postgres/postgres_backend.ts";
import { packRequests } from "../../backends/postgres/batch.ts";
import type { EventInput } from "../../log/backend.ts";
import { setOf } from "../contract/world.ts";
import { describeOnServer, onSchema, type Place } from "../support/postgres_log.ts";
import { seeded, sleep, until } from "../support/scratch.ts";

const WRITERS = 8;
const APPENDS = 60;
const ALL = Number.MAX_SAFE_INTEGER;

/** Polls behind the last position that it saw, until told to stop. */
class Poller {
  readonly seen: number[] = [];
  #stopping = false;
  readonly #running: Promise<void>;

  constructor(read: (after: number) => Promise<readonly number[]>) {
    this.#running = this.#poll(read);
  }

  async #poll(read: (after: number) => Promise<readonly number[]>): Promise<void> {
    while (!this.#stopping) this.seen.push(...await read(this.seen.at(-1) ?? 0));
  }

  /** Ends once everything that is there has been offered. */
  async stop(): Promise<readonly number[]> {
    await sleep(50);
    this.#stopping = true;
    await this.#running;
    return this.seen;
  }
}

function pollOf(backend: PostgresBackend): Poller {
  return new Poller(async (after) =>
    (await backend.read({ after, to: ALL, limit: 100 })).map(({ position }) => position)
  );
}

/** Appends as a log in another process does: no log of this process hears of it. */
async function appendRaw(sql: postgres.Sql | postgres.TransactionSql, event: EventInput): Promise<void> {
  const { json, bytes } = packRequests([{ events: [event], expects: [] }]);
  await sql`SELECT append(${sql.json(json as never)}, ${Buffer.from(bytes)}, 0, 5000, true)`;
}

/** Takes a number from a sequence, as plain identity columns do, and commits a moment later. */
async function appendPlainly(place: Place, pauseMs: number): Promise<void> {
  await place.sql.begin(async (sql) => {
    await sql`INSERT INTO plain DEFAULT VALUES`;
    await sleep(pauseMs);
  });
}

describeOnServer("order", () => {
  it(
    "8 instances append at once and a poller misses nothing",
    onSchema(async (place) => {
      const writers = await Promise.all(Array.from({ length: WRITERS }, () => place.open()));
      const reader = await place.open({ readOnly: true });
      const poller = pollOf(reader);
      const random = seeded(13);
      await Promise.all(writers.map(async (writer, w) => {
        for (let i = 0; i < APPENDS; i++) {
          // Own threads, shared ones, and several requests in one call.
          const events = [setOf(`own ${w}`, `k${i % 5}`), setOf(`shared ${i % 3}`, `k${w}`)];
          const outcomes = await writer.append(events.map((event) => ({ events: [event], expects: [] })));
          assert.ok(outcomes.every(({ kind }) => kind === "appended"));
          if (random() < 0.2) await sleep(random() * 4);
        }
      }));
      const seen = await poller.stop();
      assert.deepEqual(seen, Array.from({ length: WRITERS * APPENDS * 2 }, (_, i) => i + 1));
      const versions = new Map<string, number>();
      for (const { path, version } of await reader.read({ after: 0, to: ALL, limit: 10_000 })) {
        assert.equal(version, (versions.get(path) ?? 0) + 1, `versions of ${path}`);
        versions.set(path, version);
      }
      await Promise.all([...writers, reader].map((backend) => backend.close()));
    }),
  );

  it(
    "the same check finds what plain identity columns miss",
    onSchema(async (place) => {
      await place.sql.unsafe(`CREATE SCHEMA "${place.schema}"`);
      await place.sql`CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)`;
      const poller = new Poller(async (after) =>
        (await place.sql`SELECT id FROM plain WHERE id > ${after} ORDER BY id`).map(({ id }) => Number(id))
      );
      const random = seeded(14);
      await Promise.all(Array.from({ length: WRITERS }, async () => {
        for (let i = 0; i < 20; i++) await appendPlainly(place, random() * 5);
      }));
      const { length } = await poller.stop();
      assert.ok(length < WRITERS * 20, `${length} of ${WRITERS * 20} were seen: the check has no teeth`);
    }),
  );

  it(
    "A13: a position that is drawn and not committed holds back the later ones, and both are delivered once, in order",
    onSchema(async (place) => {
      const [first, second, reader] = await Promise.all([place.open(), place.open(), place.open()]);
      const poller = pollOf(reader);
      let later: Promise<unknown> | undefined;
      let isLaterDone = false;
      await place.sql.begin(async (sql) => {
        await appendRaw(sql, setOf("one", "k"));
        later = second.append([{ events: [setOf("two", "k")], expects: [] }]).then(() => isLaterDone = true);
        await sleep(150);
        assert.deepEqual([poller.seen, isLaterDone], [[], false]);
      });
      await later;
      assert.deepEqual(await poller.stop(), [1, 2]);
      const events = await reader.read({ after: 0, to: ALL, limit: 9 });
      assert.deepEqual(events.map(({ path }) => path), ["one\0", "two\0"]);
      await Promise.all([first, second, reader].map((backend) => backend.close()));
    }),
  );

  it(
    "appends that name the same threads in different orders don't block each other for ever",
    onSchema(async (place) => {
      const writers = await Promise.all(Array.from({ length: 4 }, () => place.open()));
      const names = ["a", "b", "c", "d", "e"];
      await Promise.all(writers.map(async (writer, w) => {
        for (let i = 0; i < 30; i++) {
          const events = names.map((_, n) => setOf(names[(n * (w + 1) + i) % names.length]!, "k"));
          const [outcome] = await writer.append([{ events, expects: [] }]);
          assert.equal(outcome!.kind, "appended");
          if (i % 10 === w) await writer.saveState("p", { version: 1, position: i, state: new Uint8Array(3) });
        }
      }));
      const { position } = await writers[0]!.head();
      assert.equal(position, 4 * 30 * names.length);
      await Promise.all(writers.map((writer) => writer.close()));
    }),
  );

  it(
    "an expect is held against others: of two that race, one is accepted",
    onSchema(async (place) => {
      const [one, other] = await Promise.all([place.open(), place.open()]);
      for (let version = 0; version < 20; version++) {
        const request = { events: [setOf("t", "k")], expects: [{ path: setOf("t", "k").path, version }] };
        const outcomes = (await Promise.all([one.append([request]), other.append([request])])).flat();
        const kinds = outcomes.map(({ kind }) => kind).sort();
        assert.deepEqual(kinds, ["appended", "conflict"]);
      }
      await one.close();
      await other.close();
    }),
  );

  it(
    "another instance notices an append",
    onSchema(async (place) => {
      const [writer, reader] = await Promise.all([place.open(), place.open()]);
      // Connecting takes its time, too.
      await Promise.all([reader.head(), reader.head(), reader.head()]);
      for (let i = 1; i <= 60; i++) {
        await appendRaw(place.sql, setOf("t", "k"));
        await until(() => reader.changed());
        assert.equal((await reader.head()).position, i);
        await sleep(7 * i % 60);
      }
      await writer.close();
      await reader.close();
    }),
  );
});
