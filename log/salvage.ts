/**
 * Saves what can be saved of a damaged file.
 *
 * @module
 */

import { existsSync, realpathSync, statSync } from "node:fs";
import { open, readdir, readlink, rename, rm } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import process from "node:process";
import type { Filler } from "../backends/sqlite/fillers.ts";
import type { Survey } from "../backends/sqlite/survey.ts";
import { guarded, takeOptions } from "./arguments.ts";
import type { AppendOutcome, Backend, EventInput } from "./backend.ts";
import { type Codec, codecId } from "./codec.ts";
import { digestOf } from "./digest.ts";
import { assert, invalid, ThreadlogError } from "./errors.ts";
import { parseThreadId, threadIdOf, type ThreadPath } from "./ids.ts";
import { msgpack } from "./msgpack.ts";
import type { Position, Version } from "./position.ts";
import { Records } from "./records.ts";
import { Upcasters } from "./upcaster.ts";
import type { Fault } from "./verify.ts";

/** How to read the damaged file. */
export interface SalvageOptions {
  /** The codec that wrote it. Default: the one of this package. */
  readonly codec?: Codec;
  /** The largest value, in bytes. Default 64 MiB. */
  readonly maxValueBytes?: number;
}

/** What `salvage` saved, and what not. */
export interface SalvageReport {
  /** How many events were copied. */
  readonly events: number;
  /** The head of the new log. */
  readonly position: Position;
  /** How many events are lost, as far as anything tells of them: what was cut off at the end may have left no trace. */
  readonly lost: number;
  /** The first thousand of them, and why. */
  readonly losses: readonly Fault[];
  /** How many of the copied events can be read, while the event that would prove them unchanged is lost. */
  readonly unproven: number;
  /** The first thousand of them. */
  readonly doubts: readonly Fault[];
}

/** The type of an event that stands for a lost one. */
export const LOST = "threadlog.lost";
/** How many faults a report lists. */
const LISTED = 1000;
/** How many events are appended in one transaction. */
const BATCH = 256;
const MIB = 1 << 20;
const DOUBT = "It can be read, but the event before it in its thread, which would prove it, is lost";

/**
 * Copies every event that can still be proven from a damaged file to a new log, and says what is lost. The damaged file
 * is only read; it needs no schema, index or header for that. Close it first, in this process and in others.
 *
 * Each event keeps its position, thread, version, id, time, key, meta and value. In the place of a lost one stands an
 * event of the type `"threadlog.lost"`, in the thread that it was lost from, or in one of that name where the thread is
 * not known. So the new log has no gaps, and `verify()` passes until something else happens to it. A key whose last
 * change is lost has the value from before it. What builds on something lost is lost, too: a delta, a patch, a fork.
 *
 * @example
 * ```ts
 * import { openLog, salvage } from "threadlog";
 * import { mkdtempSync } from "node:fs";
 *
 * const folder = mkdtempSync("/tmp/salvage-");
 * const log = await openLog(`${folder}/agent.db`);
 * await log.thread("a").put("k", 1);
 * await log.close();
 *
 * const report = await salvage(`${folder}/agent.db`, `${folder}/saved.db`);
 * console.log(report.events, report.lost); // 1 0
 * for (const { position, thread, reason } of report.losses) console.log(position, thread, reason);
 * ```
 */
export async function salvage(source: string, target: string, options: SalvageOptions = {}): Promise<SalvageReport> {
  const { codec = msgpack, maxValueBytes = 64 * MIB } = takeOptions(options, ["codec", "maxValueBytes"]);
  if (!guarded("options.codec", () => typeof codec?.encode === "function" && typeof codec.decode === "function")) {
    throw invalid("A codec has the functions `encode` and `decode`", "options.codec", "Pass such a module.");
  }
  if (!Number.isSafeInteger(maxValueBytes) || maxValueBytes < 0) {
    throw invalid("`maxValueBytes` must be a whole number >= 0", "options.maxValueBytes", "Leave it out for 64 MiB.");
  }
  await checkPaths(source, target);
  const { Remains } = await import("../backends/sqlite/remains.ts");
  const { Survey } = await import("../backends/sqlite/survey.ts");
  const { fillersOf } = await import("../backends/sqlite/fillers.ts");
  let remains;
  try {
    remains = new Remains(resolve(source), maxValueBytes);
  } catch (cause) {
    throw new ThreadlogError("storage", "The damaged file can't be read", {
      place: source,
      remedy: "Check its permissions; a disk that fails is best copied first, as far as it goes.",
      cause,
    });
  }
  try {
    checkContent(remains, codec, source);
    const survey = new Survey(remains, codec, maxValueBytes);
    await survey.run();
    const { fillers, last } = fillersOf(survey);
    const copy = new Copy(survey, fillers, codec, maxValueBytes);
    return await intoFile(resolve(target), codec, maxValueBytes, copy, (backend) => copy.run(backend, last));
  } finally {
    remains.close();
  }
}

async function checkPaths(source: string, target: string): Promise<void> {
  for (const [name, path] of [["source", source], ["target", target]]) {
    if (typeof path === "string" && path !== "") continue;
    throw invalid("Salvage goes from the path of a file to that of a new one", name!, "Pass a string.");
  }
  if (!existsSync(source) || !statSync(source).isFile()) {
    throw new ThreadlogError("not_found", "The file to salvage does not exist", {
      place: source,
      remedy: "Name the database; its -wal file is found beside it.",
    });
  }
  if (existsSync(target)) {
    throw invalid("The file to salvage to exists already", target, "Name one that does not: nothing is overwritten.");
  }
  if (!await isOpenHere(source)) return;
  throw new ThreadlogError("busy", "The file to salvage is open in this process", {
    place: source,
    remedy: "Close the log first: reading the file beside SQLite would drop its locks.",
  });
}

/** Whether this process has a file open, where that can be told. */
async function isOpenHere(path: string): Promise<boolean> {
  const folder = "/proc/self/fd";
  try {
    const real = realpathSync(path);
    for (const name of await readdir(folder)) {
      if (await readlink(`${folder}/${name}`).catch(() => "") === real) return true;
    }
  } catch {
    // Not Linux, or not allowed to look.
  }
  return false;
}

function checkContent(remains: Survey["remains"], codec: Codec, source: string): void {
  const hasEvents = remains.positions().length > 0;
  const wrote = remains.meta.get("codec");
  if (!hasEvents && (!remains.isDatabase || typeof wrote !== "string")) {
    throw new ThreadlogError("not_a_log", "There is nothing of a log in the file", {
      place: source,
      remedy: "Name a file that Threadlog wrote.",
    });
  }
  // Where the damage has reached the name of the codec, the values will show whether it is the right one.
  if (typeof wrote !== "string" || wrote === codecId(codec) || !/^[\w:/.@-]+$/.test(wrote)) return;
  throw new ThreadlogError("codec_mismatch", `The log was written with the codec ${wrote}`, {
    place: source,
    remedy: "Pass the `codec` that it was written with.",
  });
}

/** Fills a file that appears under its name only when it is complete and durable. */
async function intoFile<T>(
  target: string,
  codec: Codec,
  maxValueBytes: number,
  clock: { readonly time: number },
  fill: (backend: Backend) => Promise<T>,
): Promise<T> {
  const { SqliteBackend } = await import("../backends/sqlite/sqlite_backend.ts");
  const partial = `${target}.partial-${process.pid}-${Date.now()}`;
  try {
    const backend = await SqliteBackend.open(partial, {
      codecId: codecId(codec),
      durability: "normal",
      readOnly: false,
      busyTimeoutMs: 5000,
      allowNetworkFilesystem: false,
      now: () => clock.time,
      payloadBytes: 16 * MIB,
      maxValueBytes,
    });
    let result: T;
    try {
      result = await fill(backend);
    } finally {
      await backend.close();
    }
    await sync(partial);
    await rename(partial, target);
    await sync(dirname(target));
    return result;
  } catch (error) {
    for (const suffix of ["", "-wal", "-shm", "-journal"]) await rm(partial + suffix, { force: true });
    throw error;
  }
}

async function sync(path: string): Promise<void> {
  const file = await open(path, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** An event, and where it must be. */
interface Placed {
  readonly input: EventInput;
  readonly position: Position;
  readonly version: Version;
}

/** Appends everything again, in the order of positions: so the new log is one like any other. */
class Copy {
  /** The clock of the new log: each event has the time that it had. */
  time = 0;
  readonly #survey: Survey;
  readonly #fillers: ReadonlyMap<Position, Filler>;
  readonly #records: Records;
  readonly #nowhere: ThreadPath;
  readonly #queued: Placed[] = [];
  /** Threads that were erased, with the last version that is gone. */
  readonly #erased = new Map<number, Version>();
  /** Events that the new log did not take after all. */
  readonly #refused = new Map<Position, string>();
  #nowhereVersion = 0;
  #events = 0;
  #lost = 0;
  #unproven = 0;
  readonly #losses: Fault[] = [];
  readonly #doubts: Fault[] = [];

  constructor(survey: Survey, fillers: ReadonlyMap<Position, Filler>, codec: Codec, maxValueBytes: number) {
    this.#survey = survey;
    this.#fillers = fillers;
    this.#records = new Records(codec, new Upcasters([]), maxValueBytes);
    const used = new Set([...survey.remains.paths.values()].flat());
    let name = parseThreadId(LOST);
    for (let n = 2; used.has(name); n++) name = parseThreadId(`${LOST} ${n}`);
    this.#nowhere = name;
    for (const [id, { kept }] of survey.strands) {
      const through = [...kept].filter(([, position]) => survey.kept.get(position)!.type === "erase");
      const known = [...fillers.values()].filter(({ thread, was }) => thread === id && was?.type === "erase");
      const versions = [...through, ...known.map(({ version }) => [version] as const)].map(([version]) => version - 1);
      if (versions.length > 0) this.#erased.set(id, Math.max(...versions));
    }
  }

  async run(backend: Backend, last: Position): Promise<SalvageReport> {
    for (let position = 1; position <= last; position++) {
      if (!this.#survey.kept.has(position) || !await this.#copy(backend, position)) await this.#fill(backend, position);
    }
    await this.#flush(backend);
    // What filled the places of erased events, too.
    while (await backend.purge());
    return Object.freeze({
      events: this.#events,
      position: last,
      lost: this.#lost,
      losses: Object.freeze(this.#losses),
      unproven: this.#unproven,
      doubts: Object.freeze(this.#doubts),
    });
  }

  async #copy(backend: Backend, position: Position): Promise<boolean> {
    const { thread, version, isDoubtful, base, origin } = this.#survey.kept.get(position)!;
    if (base !== undefined && this.#refused.has(base)) return this.#refuse(position, "What it builds on is lost");
    const event = this.#survey.event(position);
    if (event.time !== this.time) await this.#flush(backend);
    this.time = event.time;
    const input = { ...event, origin, digest: digestOf(event) };
    if (origin === undefined && !isDoubtful) {
      await this.#queue(backend, { input, position, version });
    } else {
      const refusal = await this.#append(backend, { input, position, version });
      if (refusal !== undefined) return this.#refuse(position, refusal);
    }
    this.#events++;
    if (isDoubtful) this.#unproven += list(this.#doubts, this.#fault(position, thread, version, DOUBT));
    return true;
  }

  #refuse(position: Position, reason: string): false {
    this.#refused.set(position, reason);
    return false;
  }

  /** Puts something in the place of what is lost, or was erased. */
  async #fill(backend: Backend, position: Position): Promise<void> {
    const kept = this.#survey.kept.get(position);
    const filler = kept === undefined ? this.#fillers.get(position) : { ...kept, was: undefined };
    const lost = this.#survey.lost.get(position);
    const reason = this.#refused.get(position) ?? lost?.reason ?? "Nothing is left of it";
    const path = filler && this.#survey.pathOf(filler.thread) || this.#nowhere;
    const version = filler?.version ?? ++this.#nowhereVersion;
    const was = filler?.was;
    const standIn = was && { input: this.#standIn(path, version, was), position, version };
    if (standIn === undefined || await this.#append(backend, standIn) !== undefined) {
      await this.#queue(backend, {
        input: this.#records.input({ path, type: LOST, value: { reason } }),
        position,
        version,
      });
    }
    const isErased = filler !== undefined && version <= (this.#erased.get(filler.thread) ?? 0);
    if (isErased && lost === undefined && kept === undefined && was === undefined) return;
    const thread = filler?.thread ?? lost?.thread;
    this.#lost += list(this.#losses, this.#fault(position, thread, filler?.version ?? lost?.version, reason));
  }

  #standIn(path: ThreadPath, version: Version, was: NonNullable<Filler["was"]>): EventInput {
    if (was.type === "erase") return this.#records.input({ path, type: "erase", value: { through: version - 1 } });
    const origin = { path: was.path, version: was.version };
    return this.#records.input({
      path,
      type: "fork",
      value: { parent: threadIdOf(was.path), version: was.version },
      origin,
    });
  }

  /** Appends what can't be refused, together with what follows at the same time. */
  async #queue(backend: Backend, placed: Placed): Promise<void> {
    this.#queued.push(placed);
    if (this.#queued.length === BATCH) await this.#flush(backend);
  }

  async #flush(backend: Backend): Promise<void> {
    const queued = this.#queued.splice(0);
    while (queued.length > 0) {
      const outcomes = await backend.append(queued.map(({ input }) => ({ events: [input], expects: [] })));
      for (const [index, placed] of queued.splice(0, outcomes.length).entries()) {
        assert(refusalOf(outcomes[index]!, placed) === undefined, "what is proven is not refused");
      }
    }
  }

  /** Appends one event where it was; gives the reason if the log refuses it. */
  async #append(backend: Backend, placed: Placed): Promise<string | undefined> {
    await this.#flush(backend);
    const [outcome] = await backend.append([{ events: [placed.input], expects: [] }]);
    return refusalOf(outcome!, placed);
  }

  #fault(position: Position, thread: number | undefined, version: number | undefined, reason: string): Fault {
    const path = thread === undefined ? undefined : this.#survey.pathOf(thread);
    return Object.freeze({ position, thread: path === undefined ? undefined : threadIdOf(path), version, reason });
  }
}

function refusalOf(outcome: AppendOutcome, { position, version }: Placed): string | undefined {
  if (outcome.kind === "duplicate") return "Its id was used before in its thread";
  if (outcome.kind !== "appended") return "What it continues from is lost";
  const [placement] = outcome.placements;
  assert(placement!.position === position && placement!.version === version, "an event is salvaged where it was");
  return undefined;
}

function list(faults: Fault[], fault: Fault): 1 {
  if (faults.length < LISTED) faults.push(fault);
  return 1;
}
