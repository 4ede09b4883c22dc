/**
 * Timing: single calls, sides in alternation, percentiles.
 *
 * @module
 */

/** One measurement of one side, in one round of one runtime. */
export interface Row {
  readonly case: string;
  readonly side: string;
  readonly unit: "us" | "ms" | "ops/s" | "bytes" | "count";
  readonly p50: number;
  readonly p99?: number;
  readonly max?: number;
}

/** How much to run: a fraction of a table's full counts. */
export interface Scale {
  readonly round: number;
  readonly quick: boolean;
  readonly full: boolean;
}

/** One of the things compared. */
export interface Side {
  readonly name: string;
  readonly op: (index: number) => unknown;
}

/** How often to call each side. */
export interface Plan {
  readonly case: string;
  readonly warmup: number;
  readonly calls: number;
  /** Calls of one side before it is the next one's turn. */
  readonly block?: number;
  readonly round?: number;
}

/** The value that a part of the sorted samples stays below. */
export function percentile(sorted: ArrayLike<number>, part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? NaN;
}

/** The middle of some numbers. */
export function median(values: readonly number[]): number {
  return percentile([...values].sort((a, b) => a - b), 0.5);
}

/** Times every single call, in microseconds; the sides take turns, and each turn begins with another side. */
export async function interleave(sides: readonly Side[], plan: Plan): Promise<Row[]> {
  const { warmup, calls, block = 100, round = 0 } = plan;
  const samples = sides.map(() => new Float64Array(calls));
  const done = sides.map(() => -warmup);
  for (let turn = round; done.some((count) => count < calls); turn++) {
    for (let offset = 0; offset < sides.length; offset++) {
      const at = (turn + offset) % sides.length;
      const { op } = sides[at]!;
      const end = Math.min(calls, done[at]! + block);
      for (let index = done[at]!; index < end; index++) {
        const start = performance.now();
        const result = op(index + warmup);
        if (result instanceof Promise) await result;
        const end = performance.now();
        if (index >= 0) samples[at]![index] = (end - start) * 1000;
      }
      done[at] = end;
    }
  }
  return sides.map(({ name }, at) => summary(plan.case, name, "us", samples[at]!));
}

/** The percentiles of samples. */
export function summary(name: string, side: string, unit: Row["unit"], samples: Float64Array): Row {
  const sorted = samples.slice().sort();
  return { case: name, side, unit, p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99), max: sorted.at(-1)! };
}

/** Calls a second of `writers` loops that each await their call before the next. */
export async function throughput(
  writers: number,
  calls: number,
  op: (writer: number, index: number) => unknown,
): Promise<number> {
  const each = Math.ceil(calls / writers);
  const start = performance.now();
  await Promise.all(Array.from({ length: writers }, async (_, writer) => {
    for (let index = 0; index < each; index++) await op(writer, index);
  }));
  return each * writers / (performance.now() - start) * 1000;
}
