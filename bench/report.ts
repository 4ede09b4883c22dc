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
const PLOT = "latest.svg";

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
  const lines = tables.latest?.lines ?? [];
  const curves = RUNTIMES.flatMap((on) =>
    [...new Set(lines.map(({ side }) => side))].map((side): Curve => ({
      name: `${side}, ${on}`,
      points: lines.filter((line) => line.side === side && line.on[on] !== undefined)
        .map((line) => [Number(/\d+/.exec(line.case)![0]), line.on[on]!.p50]),
    }))
  );
  const shown = curves.filter(({ name, points }) => points.length > 0 && !name.startsWith("Threadlog, memory"));
  if (shown.length === 0) return {};
  return { [PLOT]: plot("Reading the newest checkpoint", "checkpoints in the thread", "us, p50", shown) };
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
    ...name === "latest" ? [`![latest, against the length of the thread](${PLOT})`, ""] : [],
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
