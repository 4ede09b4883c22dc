/**
 * Holds what is left of a damaged file against the hash chains: which events are proven, which may be kept although what
 * proves them is lost, and which are lost.
 *
 * @module
 */

import { setImmediate } from "node:timers/promises";
import { Form, type StoredEvent } from "../../log/backend.ts";
import { type Codec, decodeStrictly } from "../../log/codec.ts";
import { digestOf, FIRST_LINK, linkOf, sameBytes } from "../../log/digest.ts";
import { ThreadlogError } from "../../log/errors.ts";
import { parseThreadId, type ThreadPath } from "../../log/ids.ts";
import type { Position, Version } from "../../log/position.ts";
import type { EventStore, PackedEvent } from "../embedded/event_store.ts";
import { Payloads } from "../embedded/payloads.ts";
import type { EventRow, Remains } from "./remains.ts";

/** A thread, as far as it has been found. */
export interface Strand {
  readonly id: number;
  /** Its name, once an event has proven it. */
  path: ThreadPath | undefined;
  /** Where each version is that will be kept. */
  readonly kept: Map<Version, Position>;
  /** Where each version seems to be, kept or not. */
  readonly seen: Map<Version, Position>;
  /** The owner of the newest event that it inherits. */
  parent: { readonly id: number; readonly version: Version } | undefined;
  /** The last row that was proven, the last few that were not, and what their links may have been. */
  proven: Tail | undefined;
  readonly tails: Tail[];
}

interface Tail {
  readonly version: Version;
  readonly links: readonly Uint8Array[];
}

/** An event that will be kept. */
export interface Kept {
  readonly thread: number;
  readonly version: Version;
  readonly type: string;
  /** What came before it is lost, so that its content can't be proven. */
  readonly isDoubtful: boolean;
  /** Which of the rows at its position it is. */
  readonly choice: number;
  /** What must be kept with it. */
  readonly base: Position | undefined;
  /** What a fork or a restore continues from. */
  readonly origin: { readonly path: ThreadPath; readonly version: Version } | undefined;
}

/** An event that is lost. */
export interface Lost {
  readonly thread: number | undefined;
  readonly version: Version | undefined;
  readonly reason: string;
}

/** How many unproven rows of a thread are remembered, for what may follow them. */
const TAILS = 8;
/** How many events are looked at in one turn of the event loop. */
const TURN = 64;
const PAYLOAD_BYTES = 16 << 20;
/** What is this far behind the last event, and can't be proven, is rather a damaged number than an event. */
const MAX_STEP = 64;

/** The survey of one file. */
export class Survey {
  readonly remains: Remains;
  readonly strands = new Map<number, Strand>();
  readonly kept = new Map<Position, Kept>();
  readonly lost = new Map<Position, Lost>();
  readonly #codec: Codec;
  readonly #payloads: Payloads;
  readonly #threads = new Map<ThreadPath, number>();
  /** When each proven event was appended, in order. */
  readonly #times: { readonly position: Position; readonly time: number }[] = [];
  #last: Position = 0;

  /** Reads values with the codec that wrote them. */
  constructor(remains: Remains, codec: Codec, maxValueBytes: number) {
    this.remains = remains;
    this.#codec = codec;
    for (const [id, paths] of remains.paths) for (const path of paths) this.#threads.set(path, id);
    const store = { event: (position: Position) => this.#packed(position) } as EventStore;
    this.#payloads = new Payloads(store, PAYLOAD_BYTES, maxValueBytes);
  }

  /** Looks at every event, in order. */
  async run(): Promise<void> {
    const doubts: { position: Position; choice: number }[] = [];
    for (const [index, position] of this.remains.positions().entries()) {
      if (index % TURN === 0) await setImmediate();
      const choice = this.#look(position);
      if (choice !== undefined) doubts.push({ position, choice });
    }
    let following = 0;
    for (const { position, choice } of doubts) {
      while (following < this.#times.length && this.#times[following]!.position < position) following++;
      const [earliest, latest] = [this.#times[following - 1]?.time ?? 0, this.#times[following]?.time ?? Infinity];
      this.#settle(position, choice, earliest, latest);
    }
  }

  /** A kept event, as it was appended. */
  event(position: Position): StoredEvent {
    const { thread, choice } = this.kept.get(position)!;
    const { thread: _, ...event } = this.#unpacked(this.#row(position, choice)!, this.pathOf(thread)!);
    return event;
  }

  /** A thread's path: proven, or the likeliest. */
  pathOf(thread: number): ThreadPath | undefined {
    return this.strands.get(thread)?.path ?? this.remains.paths.get(thread)?.[0];
  }

  /** The thread that owns a version of a thread's history. */
  ownerOf(path: ThreadPath, version: Version): Strand | undefined {
    const id = this.#threads.get(path);
    let strand = id === undefined ? undefined : this.strands.get(id);
    while (strand?.parent !== undefined && version <= strand.parent.version) {
      strand = this.strands.get(strand.parent.id);
    }
    return strand;
  }

  /** Gives up an event after all. */
  drop(position: Position, reason: string): void {
    const { thread, version, type } = this.kept.get(position)!;
    const strand = this.strands.get(thread)!;
    this.kept.delete(position);
    strand.kept.delete(version);
    if (type === "fork") strand.parent = undefined;
    this.lost.set(position, { thread, version, reason });
  }

  /** Judges the rows of a position; gives the one of which nothing can be proven. */
  #look(position: Position): number | undefined {
    let doubt: number | undefined;
    let lost: Lost | undefined;
    let choice = 0;
    for (const row of this.remains.rows(position)) {
      if (choice > 0) this.#payloads.forget();
      const strand = this.strand(row.thread);
      const verdict = this.#judge(row, strand, choice);
      if (verdict === "fits") return undefined;
      if (verdict === "unknown") doubt ??= choice;
      else lost ??= { thread: row.thread, version: row.version, reason: verdict };
      choice++;
    }
    if (doubt !== undefined) return doubt;
    this.lost.set(position, lost ?? { thread: undefined, version: undefined, reason: "Its row can't be read" });
    return undefined;
  }

  #judge(row: EventRow, strand: Strand, choice: number): string {
    const { position, version, thread } = row;
    const links = this.#linksBefore(row, strand);
    if (!strand.seen.has(version)) strand.seen.set(version, position);
    let event: StoredEvent | undefined;
    let reason: string | undefined;
    try {
      event = this.#unpacked(row, "" as ThreadPath);
    } catch (error) {
      reason = this.#reason(row) ?? `Its value can't be read: ${whatOf(error)}`;
    }
    const paths = strand.path === undefined ? this.remains.paths.get(thread) ?? [] : [strand.path];
    const computed: Uint8Array[] = [];
    if (event !== undefined && links !== undefined) {
      for (const path of paths) {
        const digest = digestOf({ ...event, path });
        for (const before of links) {
          const link = linkOf(before, digest, position, version, row.time);
          computed.push(link);
          if (!sameBytes(link, row.link)) continue;
          strand.path = path;
          strand.proven = { version, links: [row.link] };
          this.#keep(row, { ...event, path }, choice, false);
          return "fits";
        }
      }
    }
    // Of a row that is damaged the link may be whole, or all but the link: either proves what follows. What is behind a
    // lost one may itself be the remains of another, or of a number: so a few are remembered.
    strand.tails.push({ version, links: [row.link, ...computed] });
    if (strand.tails.length > TAILS) strand.tails.shift();
    if (reason !== undefined) return reason;
    if (paths.length === 0) return "The name of its thread is lost";
    // Where the link before it is not proven either, that it does not fit says nothing.
    if (links === undefined || !this.#isProvenBefore(row, strand)) return "unknown";
    return this.#reason(row) ?? "Its content does not fit the thread's hash chain";
  }

  /** The links that may come before an event's; undefined where none is left. */
  #linksBefore(row: EventRow, strand: Strand): readonly Uint8Array[] | undefined {
    const { type, version } = row;
    if (type === "erase" || version === 1) return [FIRST_LINK];
    const tails = [strand.proven, ...strand.tails].filter((tail) => tail?.version === version - 1);
    if (tails.length > 0) return tails.flatMap((tail) => tail!.links);
    if (type !== "fork") return undefined;
    const origin = this.#originOf(row, undefined);
    const owner = origin && this.ownerOf(origin.path, origin.version);
    const position = owner?.seen.get(origin!.version);
    if (position === undefined || origin!.version !== version - 1) return undefined;
    const links = [...this.remains.rows(position)].map(({ link }) => link);
    return links.length === 0 ? undefined : links;
  }

  #isProvenBefore(row: EventRow, strand: Strand): boolean {
    if (row.version === 1 || row.type === "erase" || strand.proven?.version === row.version - 1) return true;
    const origin = row.type === "fork" ? this.#originOf(row, undefined) : undefined;
    return origin !== undefined && this.ownerOf(origin.path, origin.version)?.kept.has(origin.version) === true;
  }

  /** Keeps an event that nothing proves, where it is sound in itself and has a place. */
  #settle(position: Position, choice: number, earliest: number, latest: number): void {
    const row = this.#row(position, choice)!;
    const { thread, version, packed } = row;
    const strand = this.strand(thread);
    const path = this.pathOf(thread);
    const fail = (reason: string) => void this.lost.set(position, { thread, version, reason });
    if (path === undefined) return fail("The name of its thread is lost");
    const base = Math.abs(packed.packing ?? 0);
    if (base > 0 && !this.kept.has(base)) return fail(buildsOn(base));
    // Times never decrease: one that is too late would be that of all events behind it, too.
    if (row.time < earliest || row.time > latest) return fail("Its time does not fit the log");
    const isIndexed = this.remains.places.get(position)?.some((at) => at.thread === thread && at.version === version);
    // What nothing confirms may be an event, or the remains of a number.
    if (position > this.#last + MAX_STEP && !isIndexed) return fail("It is far behind the end of the log");
    for (const [other, at] of strand.kept) {
      const isAfter = at > position;
      const room = isAfter ? at - position >= other - version : position - at >= version - other;
      if (other === version || isAfter !== other > version || !room) return fail("Its version does not fit its thread");
    }
    try {
      const event = this.#unpacked(row, path);
      for (const bytes of [event.value, event.state, event.meta]) if (bytes) decodeStrictly(this.#codec, bytes);
      if (event.type === "fork" && this.#originOf(row, event) === undefined) return fail("What it forks is lost");
      this.#keep(row, event, choice, true);
    } catch (error) {
      fail(`Its value can't be read: ${whatOf(error)}`);
    }
  }

  #keep(row: EventRow, event: StoredEvent, choice: number, isDoubtful: boolean): void {
    const { position, thread, version, type, base } = row;
    const strand = this.strand(thread);
    const origin = type === "fork" || type === "restore" ? this.#originOf(row, event) : undefined;
    if (origin === undefined && (type === "fork" || type === "restore")) {
      this.lost.set(position, { thread, version, reason: "What it continues from can't be read" });
      return;
    }
    if (type === "fork" && origin!.version > 0) {
      const owner = this.ownerOf(origin!.path, origin!.version);
      if (owner === undefined) {
        this.lost.set(position, { thread, version, reason: "The thread that it forks is lost" });
        return;
      }
      strand.parent = { id: owner.id, version: origin!.version };
    }
    this.#last = Math.max(this.#last, position);
    strand.kept.set(version, position);
    strand.seen.set(version, position);
    if (!isDoubtful) this.#times.push({ position, time: row.time });
    const needsBase = row.form === Form.patch && event.state === undefined;
    const needs = needsBase ? base ?? 0 : undefined;
    this.kept.set(position, { thread, version, type, isDoubtful, choice, base: needs, origin });
    this.lost.delete(position);
  }

  /** What a fork or a restore says that it continues from. */
  #originOf(row: EventRow, event: StoredEvent | undefined) {
    try {
      const { value } = event ?? this.#unpacked(row, "" as ThreadPath);
      const said = decodeStrictly(this.#codec, value!) as { parent?: unknown; version?: unknown };
      if (!Number.isSafeInteger(said.version) || (said.version as number) < 0) return undefined;
      const path = row.type === "fork" ? parseThreadId(said.parent) : this.pathOf(row.thread);
      return path && { path, version: said.version as Version };
    } catch {
      return undefined;
    }
  }

  /** Why a value can't be had although its own bytes may be whole. */
  #reason({ packed }: EventRow): string | undefined {
    const base = Math.abs(packed.packing ?? 0);
    return base > 0 && !this.kept.has(base) ? buildsOn(base) : undefined;
  }

  /** A thread by its number. */
  strand(id: number): Strand {
    let strand = this.strands.get(id);
    if (strand === undefined) {
      const nothing = { path: undefined, parent: undefined, proven: undefined };
      strand = { id, kept: new Map(), seen: new Map(), tails: [], ...nothing };
      this.strands.set(id, strand);
    }
    return strand;
  }

  #row(position: Position, choice: number): EventRow | undefined {
    let index = 0;
    for (const row of this.remains.rows(position)) if (index++ === choice) return row;
    return undefined;
  }

  #packed(position: Position): PackedEvent | undefined {
    const row = this.#row(position, this.kept.get(position)?.choice ?? 0);
    return row && { ...row, path: "" as ThreadPath };
  }

  #unpacked(row: EventRow, path: ThreadPath): StoredEvent & Pick<EventRow, "thread"> {
    return { ...this.#payloads.unpack({ ...row, path }), thread: row.thread };
  }
}

/** Why an event is lost that builds on another. */
export function buildsOn(position: Position): string {
  return `What it builds on, at position ${position}, is lost`;
}

function whatOf(error: unknown): string {
  return error instanceof ThreadlogError ? error.what : (error as Error).message;
}
