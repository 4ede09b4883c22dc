/**
 * What takes the place of lost events, so that all others keep their positions and versions: for each version that a
 * thread lacks, a position that has no event any more.
 *
 * Events that were erased lack as well. Theirs is the same treatment: what fills their places goes again when the
 * tombstone behind them is appended.
 *
 * @module
 */

import type { ThreadPath } from "../../log/ids.ts";
import type { Position, Version } from "../../log/position.ts";
import { buildsOn, type Strand, type Survey } from "./survey.ts";

/** What stands in the place of an event. */
export interface Filler {
  readonly thread: number;
  readonly version: Version;
  /** What it was can be told from other tables: then it is that again, without the id and the meta that it had. */
  readonly was: { readonly type: "fork"; readonly path: ThreadPath; readonly version: Version } | {
    readonly type: "erase";
  } | undefined;
}

/** Versions that a thread lacks, and between which positions they were. */
interface Gap {
  readonly strand: Strand;
  readonly from: Version;
  next: Version;
  readonly to: Version;
  readonly low: Position;
  readonly high: Position;
}

/** A gap that can't be filled, and one that may have taken its places without being one. */
interface Failure {
  readonly gap: Gap;
  readonly suspect: Gap | undefined;
}

/** A row of an index far behind the last event is rather damaged than right. */
const MAX_STEP = 64;

/** Finds a place for everything; drops from the survey what has none. */
export function fillersOf(survey: Survey): { fillers: Map<Position, Filler>; last: Position } {
  const distrusted = new Set<Strand>();
  for (const [id, { tombstone }] of survey.remains.threads) if (tombstone > 0) survey.strand(id);
  while (true) {
    dropDependents(survey);
    const plan = new Plan(survey, distrusted);
    const failed = plan.run();
    if (failed.length === 0) return plan;
    for (const { gap, suspect } of failed) {
      if (suspect !== undefined && giveUp(survey, { ...suspect, next: suspect.from })) continue;
      if (giveUp(survey, gap)) continue;
      const heirs = plan.heirsOf(gap.strand, gap.next);
      for (const strand of heirs.length > 0 ? heirs : [gap.strand]) distrusted.add(strand);
    }
  }
}

/** What builds on something lost is lost, too. */
function dropDependents(survey: Survey): void {
  for (const [position, { base }] of [...survey.kept].sort(([a], [b]) => a - b)) {
    if (base !== undefined && !survey.kept.has(base)) survey.drop(position, buildsOn(base));
  }
}

/**
 * Numbers that can't be right: first what was doubtful goes, then all behind the gap. False if there was nothing to go.
 */
function giveUp(survey: Survey, { strand, next }: Gap): boolean {
  const behind = [...strand.kept].filter(([version]) => version >= next).map(([, position]) => position);
  const doubtful = behind.filter((position) => survey.kept.get(position)!.isDoubtful);
  for (const position of doubtful.length > 0 ? doubtful : behind) {
    survey.drop(position, "Too much of its thread is lost before it");
  }
  if (behind.length > 0) return true;
  // Nothing is behind it but what forks or restores it, or what other tables say.
  const heirs = [...survey.kept].filter(([, { origin }]) => {
    return origin !== undefined && origin.version >= next && survey.ownerOf(origin.path, origin.version) === strand;
  });
  for (const [position] of heirs) survey.drop(position, "What it continues from is lost");
  return heirs.length > 0;
}

class Plan {
  readonly fillers = new Map<Position, Filler>();
  last: Position;
  readonly #survey: Survey;
  readonly #distrusted: ReadonlySet<Strand>;
  /** Positions of versions that are neither kept nor found, from other tables. */
  readonly #known = new Map<Strand, Map<Version, Position>>();
  readonly #starts = new Map<Strand, Version>();
  readonly #needs = new Map<Strand, { version: Version; before: Position }[]>();

  /** What other tables say of some threads has not been right. */
  constructor(survey: Survey, distrusted: ReadonlySet<Strand>) {
    this.#survey = survey;
    this.#distrusted = distrusted;
    this.last = Math.max(0, ...lastOf(survey.kept.keys()));
  }

  /** Fills what can be filled; gives the gaps that can't. */
  run(): Failure[] {
    for (const strand of this.#survey.strands.values()) this.#begin(strand);
    this.#takeIndexes();
    this.#findNeeds();
    const gaps: Gap[] = [];
    for (const strand of this.#survey.strands.values()) gaps.push(...this.#gapsOf(strand));
    return this.#fill(gaps.sort((a, b) => a.low - b.low));
  }

  /** The threads of which only other tables say that they forked a thread at a version, or later. */
  heirsOf(strand: Strand, from: Version): Strand[] {
    const { strands, remains } = this.#survey;
    const heirs = [...this.fillers.values()].filter(({ was, thread }) => {
      return was?.type === "fork" && was.version >= from && remains.threads.get(thread)!.parent!.id === strand.id;
    });
    return heirs.map(({ thread }) => strands.get(thread)!);
  }

  /** The index of versions tells where an event was whose row is gone. */
  #takeIndexes(): void {
    const { kept, strands, remains } = this.#survey;
    for (const [position, places] of [...remains.places].sort(([a], [b]) => a - b)) {
      if (kept.has(position) || position < 1 || position > this.last + MAX_STEP) continue;
      for (const { thread, version } of places) {
        const strand = strands.get(thread);
        const isBase = remains.bases.get(position)?.some((base) => {
          return base.thread === version && base.origin.thread === thread;
        });
        if (isBase || strand === undefined || !this.#fits(strand, version, position)) continue;
        this.#know(strand, version, position);
        this.last = Math.max(this.last, position);
        break;
      }
    }
  }

  /** Where a thread's own history begins: what the table of threads says counts where the event is lost. */
  #begin(strand: Strand): void {
    const row = this.#survey.remains.threads.get(strand.id);
    this.#starts.set(strand, (strand.parent?.version ?? 0) + 1);
    if (row === undefined) return;
    const [first = Infinity] = [...strand.kept.keys()].sort((a, b) => a - b);
    const { parent, created, erased, tombstone } = row;
    const owner = parent && this.#survey.strands.get(parent.id);
    const path = parent && this.#survey.pathOf(parent.id);
    const isFork = strand.parent === undefined && owner !== undefined && path !== undefined && owner !== strand &&
      parent!.version >= 1 && parent!.version + 1 < first && this.#isFree(created);
    if (isFork && this.#fits(strand, parent!.version + 1, created)) {
      const version = parent!.version;
      this.#starts.set(strand, version + 1);
      this.#know(strand, version + 1, created, { type: "fork", path, version });
    }
    if (this.#isFree(tombstone) && this.#fits(strand, erased + 1, tombstone)) {
      this.#know(strand, erased + 1, tombstone, { type: "erase" });
    }
  }

  #isFree(position: Position): boolean {
    return position > 0 && position <= this.last && !this.#survey.kept.has(position);
  }

  /** Whether a version may have been at a position, by the order of those that are known. */
  #fits(strand: Strand, version: Version, position: Position): boolean {
    if (version < 1 || this.fillers.has(position) || this.#distrusted.has(strand)) return false;
    if (this.#survey.pathOf(strand.id) === undefined) return false;
    for (const points of [strand.kept, this.#known.get(strand) ?? new Map<Version, Position>()]) {
      for (const [other, at] of points) if (other === version || other > version !== at > position) return false;
    }
    return true;
  }

  #know(strand: Strand, version: Version, position: Position, was?: Filler["was"]): void {
    const known = this.#known.get(strand) ?? new Map<Version, Position>();
    this.#known.set(strand, known.set(version, position));
    this.fillers.set(position, { thread: strand.id, version, was });
  }

  #gapsOf(strand: Strand): Gap[] {
    const gaps: Gap[] = [];
    const points = [...strand.kept, ...this.#known.get(strand) ?? []].sort(([a], [b]) => a - b);
    let next = this.#starts.get(strand)!;
    let low = 0;
    for (const [version, position] of points) {
      if (version > next) gaps.push(...this.#split(strand, next, version - 1, low, position));
      next = version + 1;
      low = position;
    }
    const needed = Math.max(0, ...(this.#needs.get(strand) ?? []).map(({ version }) => version));
    if (needed >= next) gaps.push(...this.#split(strand, next, needed, low, Infinity));
    return gaps;
  }

  /** A gap, in as many as there are versions in it that must have been before something. */
  #split(strand: Strand, from: Version, to: Version, low: Position, high: Position): Gap[] {
    const gaps: Gap[] = [];
    const needs = (this.#needs.get(strand) ?? []).filter(({ version }) => version >= from && version <= to);
    for (const { version, before } of needs.sort((a, b) => b.version - a.version)) {
      if (before >= high) continue;
      if (version < to) gaps.unshift({ strand, from: version + 1, next: version + 1, to, low, high });
      to = version;
      high = before;
    }
    return [{ strand, from, next: from, to, low, high }, ...gaps];
  }

  /** Which versions forks and restores continue from, and before which position those were. */
  #findNeeds(): void {
    const need = (owner: Strand | undefined, version: Version, before: Position) => {
      if (owner === undefined) return;
      const needs = this.#needs.get(owner) ?? [];
      needs.push({ version, before });
      this.#needs.set(owner, needs);
    };
    const { kept, strands } = this.#survey;
    for (const [position, { origin }] of kept) {
      if (origin !== undefined) need(this.#survey.ownerOf(origin.path, origin.version), origin.version, position);
    }
    for (const [position, { was, thread }] of this.fillers) {
      const parent = was?.type === "fork" ? this.#survey.remains.threads.get(thread)!.parent! : undefined;
      if (parent !== undefined) need(strands.get(parent.id), parent.version, position);
    }
  }

  /** Gives each gap free positions within it, the most pressing first: if there is a way, this finds it. */
  #fill(gaps: readonly Gap[]): Failure[] {
    const failed: Failure[] = [];
    const open: Gap[] = [];
    let index = 0;
    // The largest that has been given positions since one was left over: without it there would be more.
    let suspect: Gap | undefined;
    const fail = (gap: Gap) => {
      const isGreedy = suspect !== undefined && suspect.high <= gap.high && sizeOf(suspect) > 0;
      failed.push({ gap, suspect: isGreedy ? suspect : undefined });
    };
    for (let position = 1; position <= this.last; position++) {
      if (this.#survey.kept.has(position) || this.fillers.has(position)) continue;
      for (; index < gaps.length && gaps[index]!.low < position; index++) insert(open, gaps[index]!);
      while (open.length > 0 && open[0]!.high <= position) fail(open.shift()!);
      const gap = open[0];
      if (gap === undefined) suspect = undefined;
      if (gap === undefined) continue;
      if (this.#isShaky(gap) && (suspect === undefined || sizeOf(gap) > sizeOf(suspect))) suspect = gap;
      this.fillers.set(position, { thread: gap.strand.id, version: gap.next, was: undefined });
      gap.next++;
      if (gap.next > gap.to) open.shift();
    }
    for (const gap of [...open, ...gaps.slice(index)]) fail(gap);
    return failed;
  }

  /** Whether a gap may be none: what ends it has a version that nothing proves, or its thread may have been a fork. */
  #isShaky({ strand, from, high }: Gap): boolean {
    const end = this.#survey.kept.get(high);
    const isOrphan = from === 1 && end?.type !== "erase" && !this.#survey.remains.threads.has(strand.id);
    return isOrphan || end?.isDoubtful === true;
  }
}

function sizeOf({ from, to }: Gap): number {
  return to - from + 1;
}

function insert(open: Gap[], gap: Gap): void {
  let low = 0;
  let high = open.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (open[middle]!.high <= gap.high) low = middle + 1;
    else high = middle;
  }
  open.splice(low, 0, gap);
}

/** The largest of many numbers, as a list of one or none. */
function lastOf(numbers: Iterable<number>): number[] {
  let last: number | undefined;
  for (const number of numbers) if (last === undefined || number > last) last = number;
  return last === undefined ? [] : [last];
}
