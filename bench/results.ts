/**
 * From the rows of all rounds to medians and ratios.
 *
 * @module
 */

import type { Machine } from "./machine.ts";
import { median, type Row } from "./measure.ts";

/** The rows of one round, by runtime. */
export type Round = Readonly<Record<string, readonly Row[]>>;

/** The medians of the rounds; `p50s` are what they are the median of. */
export interface Figures {
  readonly p50: number;
  readonly p99?: number;
  readonly max?: number;
  readonly p50s: readonly number[];
}

/** The median of the rounds' ratios, and how far they lie apart. */
export interface Ratio {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** One side of one case, on every runtime that it ran on. */
export interface Line {
  readonly case: string;
  readonly side: string;
  readonly unit: Row["unit"];
  readonly on: Readonly<Record<string, Figures>>;
  /** By base, by runtime. */
  readonly ratios: Readonly<Record<string, Readonly<Record<string, Ratio>>>>;
}

/** A table as it came out. */
export interface Outcome {
  readonly ran: {
    readonly date: string;
    readonly rounds: number;
    readonly quick: boolean;
    readonly loadBefore: number;
    readonly loadAfter: number;
  };
  readonly lines: readonly Line[];
}

/** What results/latest.json holds. */
export interface Results {
  readonly machine: Machine;
  readonly versions: Readonly<Record<string, string>>;
  readonly peer: string;
  readonly tables: Readonly<Record<string, Outcome>>;
}

/** A side that runs on Node alone is held against the other runtimes' sides of the same round. */
const ELSEWHERE = "Node";

/** Puts the rounds together. */
export function summarize(rounds: readonly Round[], bases: readonly string[]): Line[] {
  const names = new Map<string, Row>();
  for (const round of rounds) {
    for (const row of Object.values(round).flat()) names.set(`${row.case}\n${row.side}`, row);
  }
  return [...names.values()].map((row): Line => {
    const on: Record<string, Figures> = {};
    const ratios: Record<string, Record<string, Ratio>> = {};
    for (const runtime of new Set(rounds.flatMap((round) => Object.keys(round)))) {
      const found = rounds.flatMap((round) => find(round, runtime, row.case, row.side) ?? []);
      if (found.length === 0) continue;
      const p99s = found.flatMap(({ p99 }) => p99 ?? []);
      const maxima = found.flatMap(({ max }) => max ?? []);
      on[runtime] = {
        p50: tidy(median(found.map(({ p50 }) => p50))),
        ...p99s.length > 0 && { p99: tidy(median(p99s)) },
        ...maxima.length > 0 && { max: tidy(median(maxima)) },
        p50s: found.map(({ p50 }) => tidy(p50)),
      };
      for (const base of bases) {
        if (base === row.side) continue;
        const quotients = rounds.flatMap((round) => {
          const one = find(round, runtime, row.case, row.side);
          const other = find(round, runtime, row.case, base) ?? find(round, ELSEWHERE, row.case, base);
          return one === undefined || other === undefined ? [] : one.p50 / other.p50;
        });
        if (quotients.length === 0) continue;
        ratios[base] ??= {};
        ratios[base][runtime] = {
          median: tidy(median(quotients)),
          min: tidy(Math.min(...quotients)),
          max: tidy(Math.max(...quotients)),
        };
      }
    }
    return { case: row.case, side: row.side, unit: row.unit, on, ratios };
  });
}

function find(round: Round, runtime: string, name: string, side: string): Row | undefined {
  return round[runtime]?.find((row) => row.case === name && row.side === side);
}

/** Three digits that mean something. */
function tidy(value: number): number {
  return Number(value.toPrecision(3));
}
