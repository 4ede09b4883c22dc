/**
 * The tables, by name.
 *
 * @module
 */

import type { Bar } from "../bars.ts";
import { OURS } from "../deltas.ts";
import type { Row, Scale } from "../measure.ts";
import { concurrency } from "./concurrency.ts";
import { deltas } from "./deltas.ts";
import { disk, DISK_BARS } from "./disk.ts";
import { floor } from "./floor.ts";
import { growth } from "./growth.ts";
import { lag } from "./lag.ts";
import { latest } from "./latest.ts";
import { messages, MESSAGES_BARS } from "./messages.ts";
import { properties, PROPERTIES_BARS } from "./properties.ts";
import { durable, in_memory } from "./savers.ts";
import { snapshot } from "./snapshot.ts";
import { threads, THREADS_BARS } from "./threads.ts";

/** A table: how it is headed, what its sides are held against, and how it is measured. */
export interface Table {
  readonly title: string;
  /** What to know about it, a sentence or two. */
  readonly note: string;
  /** The sides that the others are divided by, in the order of the columns. */
  readonly bases: readonly string[];
  /** What must hold. */
  readonly bars?: readonly Bar[];
  readonly run: (scale: Scale) => Promise<Row[]>;
}

const PEER = "SqliteSaver";

/** All of them, in the order of the report. */
export const TABLES: Readonly<Record<string, Table>> = {
  floor: {
    title: "The floor",
    note:
      "A put of 1 KiB, one at a time, awaited. Raw SQLite: the same bytes as one row of one bare table, one commit. " +
      "Threadlog also encodes the value, keeps three indexes and a hash chain, and answers with the event.",
    bases: ["raw SQLite", "pwrite + fdatasync"],
    run: floor,
  },
  latest: {
    title: "1. Latest, as a thread grows",
    note: "getTuple of the newest checkpoint of a thread. swarmstate's own figures, from their machine: 7.3-7.5 us, " +
      "flat; the in-memory reference in Python rises from 5.5 to 40 us.",
    bases: ["MemorySaver", PEER],
    run: latest,
  },
  durable: {
    title: "2. Checkpoints on disk",
    note: "Like durability against like. P is swarmstate's payload, 5.4 KB; unchanged, Threadlog stores a patch. " +
      "swarmstate's own put, from their machine: 34.1 us, 1.02 of Python's SqliteSaver at NORMAL.",
    bases: [PEER],
    run: durable,
  },
  memory: {
    title: "3. Checkpoints in memory",
    note: "swarmstate's own: put at 0.66 of the speed of the reference in Python, get 8 times as fast.",
    bases: ["MemorySaver"],
    run: in_memory,
  },
  snapshot: {
    title: "4. Snapshot and diff",
    note: "By mitata. swarmstate's own: a snapshot in 0.45-0.52 us, flat; the diff of one change 11 us.",
    bases: ["structuredClone", "JSON"],
    run: snapshot,
  },
  concurrency: {
    title: "5. Writers at once",
    note: "On one event loop, each writer awaiting its call before the next, in a thread of its own. More is better.",
    bases: ["raw SQLite, a commit for each row", "raw SQLite, a commit for 64 rows", PEER],
    run: concurrency,
  },
  growth: {
    title: "Growth",
    note:
      "One thread in one file, NORMAL; every event sets a key of its own. Each step against the same at 1,000 events.",
    bases: ["   1000 events"],
    run: growth,
  },
  lag: {
    title: "The event loop under load",
    note:
      "64 writers put 0.9 KB flat out. The timer is a chain of 1 ms timeouts; Deno's own timers come 1 ms late when idle.",
    bases: [],
    run: lag,
  },
  disk: {
    title: "Bytes on disk",
    note: "A thread of 200 messages of 2 KB of random words, a checkpoint for each, NORMAL, after closing.",
    bases: ["content", PEER],
    bars: DISK_BARS,
    run: disk,
  },
  threads: {
    title: "Whole conversations",
    note:
      "150 of a model with tools: real ones of 3,916 messages where they are at hand, else made ones of that shape. Each " +
      "message is a checkpoint. The first reads are made of a file that was just opened; each is checked.",
    bases: ["content", PEER],
    bars: THREADS_BARS,
    run: threads,
  },
  messages: {
    title: "A message more",
    note:
      "A list of LangChain's messages of 200 characters grows by one, NORMAL. All of it has to be looked at, because an " +
      "app may have changed any: by Threadlog, where the serializer is LangGraph's own, else by the app's. What that takes " +
      "is measured apart, and must not count.",
    bases: ["10 messages"],
    bars: MESSAGES_BARS,
    run: messages,
  },
  properties: {
    title: "What must not grow",
    note:
      "Properties that made LangGraph's checkpointers in Python fast, each as what it costs beside little and beside " +
      "much. SQLite at NORMAL in this process, and PostgreSQL behind a proxy that counts round trips. That a message more " +
      "costs a message is in the table before.",
    bases: [...new Set(PROPERTIES_BARS.flatMap(({ base }) => base ?? []))],
    bars: PROPERTIES_BARS,
    run: properties,
  },
  deltas: {
    title: "Ways to keep a value by what changed",
    note:
      "Each value after the one before it, without a log: from the value to the bytes that are stored, and cold from " +
      "the first whole value over all deltas to the value. docs/deltas.md says what follows from it.",
    bases: [OURS],
    run: deltas,
  },
};
