/**
 * What a table must show, and whether it does.
 *
 * @module
 */

import type { Line } from "./results.ts";

/** A bound on one side of one case: on its figure or, where there is a base, on its ratio to that. */
export interface Bar {
  /** What holds if the bar does. */
  readonly property: string;
  readonly case: string;
  readonly side: string;
  readonly base?: string;
  readonly atMost?: number;
  readonly atLeast?: number;
}

/** The bound, to be read by people. */
export function boundOf({ base, atMost, atLeast }: Bar): string {
  const bound = atMost === undefined ? `>= ${atLeast}` : `<= ${atMost}`;
  return base === undefined ? bound : `${bound} of ${base.trim()}`;
}

/** Whether a bar holds on a runtime, with its figure; empty where it was not measured. */
export function verdict(bar: Bar, lines: readonly Line[], on: string): string {
  const line = lines.find((one) => one.case === bar.case && one.side === bar.side);
  const found = bar.base === undefined ? line?.on[on]?.p50 : line?.ratios[bar.base]?.[on]?.median;
  if (found === undefined || found === null) return "";
  const { atMost = Infinity, atLeast = -Infinity } = bar;
  return found <= atMost && found >= atLeast ? `holds: ${found}` : `**missed: ${found}**`;
}
