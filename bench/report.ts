/**
 * The results as a page.
 *
 * @module
 */

import { type Bar, boundOf, verdict } from "./bars.ts";
import { type Curve, plot } from "./plot.ts";
import type { Figures, Line, Outcome, Ratio, Results } from "./results.ts";
import { type Table, TABLES } from "./tables/mod.ts";

const RUNTIMES = ["Bun", "Deno", "Node"];
/** A plot of some lines of a table: against the number in their case or side that `x` matches. */
interface Drawing {
  readonly table: string;
  readonly file: string;
  readonly title: string;
  readonly x: RegExp;
  readonly names: readonly [x: string, y: string];
  readonly value: "p50" | "p99";
  /** Sides that would only be in the way. */
  readonly without?: RegExp;
}

const DRAWINGS: readonly Drawing[] = [
  {
    table: "latest",
    file: "latest.svg",
    title: "Reading the newest checkpoint",
    x: /latest of (\d+) checkpoints/,
    names: ["checkpoints in the thread", "us, p50"],
    value: "p50",
    without: /^Threadlog, memory/,
  },
  {
    table: "disk",
    file: "disk.svg",
    title: "A conversation of 2 KB a turn, all of it kept",
    x: /after +(\d+) turns/,
    names: ["turns", "bytes on disk"],
    value: "p50",
  },
  {
    table: "concurrency",
    file: "writers.svg",
    title: "Puts of 0.9 KB, FULL",
    x: /put of 0\.9 KB, FULL, +(\d+) writers/,
    names: ["writers", "puts a second"],
    value: "p50",
  },
  {
    table: "lag",
    file: "lag.svg",
    title: "How late a timer of 1 ms comes, FULL",
    x: /Threadlog FULL, (\d+) writers/,
    names: ["writers, each as fast as it can", "ms, p99"],
    value: "p99",
  },
];

/** The whole page, in Markdown. */
export function page(results: Results): string {
  const { machine, versions, peer, tables } = results;
  const sections = Object.entries(TABLES).flatMap(([name, table]) => {
    const outcome = tables[name];
    return outcome === undefined ? [] : section(name, table, outcome);
  });
  return [
    "# Measurements",
    "",
    "Written by `npm run bench`; `npm run bench -- TABLE` measures one table anew. Absolute figures are of this machine " +
    "at that moment; the ratios are what carries over. Each is the median of the rounds' ratios of p50 (the least and " +
    "the greatest behind it), the sides having taken turns within a round. Below 1 is faster, but for ops/s, where " +
    "above 1 is.",
    "",
    `- Machine: ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, ${machine.kernel}, ${machine.fileSystem}`,
    `- Versions: ${Object.entries(versions).map(([name, version]) => `${name} ${version}`).join(", ")}`,
    `- SqliteSaver: ${peer}. It loads on Node alone: Bun's and Deno's ratios are against it on Node, in the same round.`,
    "",
    ...sections,
  ].join("\n");
}

/** The plots that the results allow, by file name. */
export function plots({ tables }: Results): Record<string, string> {
  const drawn: Record<string, string> = {};
  for (const drawing of DRAWINGS) {
    const curves = curvesOf(drawing, tables[drawing.table]?.lines ?? []);
    if (curves.length > 0) drawn[drawing.file] = plot(drawing.title, ...drawing.names, curves);
  }
  return drawn;
}

function curvesOf({ x, value, without }: Drawing, lines: readonly Line[]): Curve[] {
  const curves = new Map<string, [number, number][]>();
  for (const line of lines) {
    // The number may be in either; what is left of the side names the curve.
    const found = x.exec(line.case) ?? x.exec(line.side);
    if (found === null || without?.test(line.side)) continue;
    const side = line.side.replace(/, \d+ writers$/, "");
    for (const runtime of RUNTIMES) {
      const y = line.on[runtime]?.[value];
      if (y === undefined || !(y > 0)) continue;
      const name = `${side}, ${runtime}`;
      curves.set(name, [...curves.get(name) ?? [], [Number(found[1]), y]]);
    }
  }
  return [...curves].map(([name, points]) => ({ name, points: points.sort(([a], [b]) => a - b) }));
}

function section(name: string, table: Table, { ran, lines: unordered }: Outcome): string[] {
  const { title, note, bases, bars = [] } = table;
  const cases = [...new Set(unordered.map((line) => line.case))];
  const lines = cases.flatMap((one) => unordered.filter((line) => line.case === one));
  const extent = `${ran.rounds} rounds${ran.quick ? ", quick" : ""}`;
  return [
    `## ${title}`,
    "",
    note,
    "",
    ...DRAWINGS.filter(({ table }) => table === name).flatMap(({ title, file }) => [`![${title}](${file})`, ""]),
    `\`npm run bench -- ${name}${ran.quick ? " --quick" : ""}\`: ${extent}, ${ran.date}, load average ` +
    `${ran.loadBefore} before and ${ran.loadAfter} after.`,
    "",
    row(["p50 / p99", "side", ...RUNTIMES]),
    row(["---", "---", ...RUNTIMES.map(() => "---:")]),
    ...lines.map((line) => row([line.case, line.side, ...RUNTIMES.map((on) => figures(line, line.on[on]))])),
    "",
    ...ratios(bases, lines),
    ...held(bars, lines),
  ];
}

function held(bars: readonly Bar[], lines: readonly Line[]): string[] {
  if (bars.length === 0) return [];
  const rows = bars.map((bar) => row([bar.property, boundOf(bar), ...RUNTIMES.map((on) => verdict(bar, lines, on))]));
  return [row(["what must hold", "bar", ...RUNTIMES]), row(["---", "---", ...RUNTIMES.map(() => "---")]), ...rows, ""];
}

function ratios(bases: readonly string[], lines: readonly Line[]): string[] {
  const rows = bases.flatMap((base) =>
    lines.flatMap((line) => {
      const found = line.ratios[base];
      // What was counted is held against its bar alone.
      if (found === undefined || bases.includes(line.side) || line.unit === "count") return [];
      return [row([line.case, `${line.side} / ${base.trim()}`, ...RUNTIMES.map((on) => ratio(found[on]))])];
    })
  );
  if (rows.length === 0) return [];
  return [row(["ratio of p50", "of", ...RUNTIMES]), row(["---", "---", ...RUNTIMES.map(() => "---:")]), ...rows, ""];
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.trim().replace(/ +/g, " ")).join(" | ")} |`;
}

function figures({ unit }: Line, found: Figures | undefined): string {
  if (found === undefined) return "";
  const { p50, p99, max } = found;
  if (unit === "count") return show(p50);
  if (unit === "bytes" || unit === "ops/s") return `${Math.round(p50).toLocaleString("en")} ${unit}`;
  const tail = unit === "ms" && max !== undefined ? ` (max ${show(max)})` : "";
  return `${show(p50)}${p99 === undefined ? "" : ` / ${show(p99)}`}${tail} ${unit}`;
}

function ratio(found: Ratio | undefined): string {
  if (found === undefined) return "";
  return `**${show(found.median)}** (${show(found.min)}-${show(found.max)})`;
}

function show(value: number): string {
  return value >= 1000 ? Math.round(value).toLocaleString("en") : String(value);
}
