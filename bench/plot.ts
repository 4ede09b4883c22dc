/**
 * A plot: lines over logarithmic axes, as SVG.
 *
 * @module
 */

/** A line and its points. */
export interface Curve {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

const WIDTH = 720;
const HEIGHT = 400;
const LEFT = 70;
const RIGHT = 190;
const TOP = 40;
const BOTTOM = 50;
const COLOURS = ["#1f77b4", "#2ca02c", "#d62728", "#ff7f0e", "#9467bd", "#8c564b", "#17becf"];

/** Draws curves. Every number must be above zero. */
export function plot(title: string, xName: string, yName: string, curves: readonly Curve[]): string {
  const xs = [...new Set(curves.flatMap(({ points }) => points.map(([x]) => x)))].sort((a, b) => a - b);
  const ys = curves.flatMap(({ points }) => points.map(([, y]) => y));
  const decades = range(Math.floor(Math.log10(Math.min(...ys))), Math.ceil(Math.log10(Math.max(...ys))));
  const [first, last] = [Math.log10(xs[0]!), Math.log10(xs.at(-1)!)];
  const [low, high] = [decades[0]!, decades.at(-1)!];
  const right = WIDTH - RIGHT;
  const floor = HEIGHT - BOTTOM;
  const x = (value: number) => round(LEFT + (Math.log10(value) - first) / (last - first || 1) * (right - LEFT));
  const y = (value: number) => round(floor - (Math.log10(value) - low) / (high - low || 1) * (floor - TOP));
  const text = (at: string, content: string, more = "") => `<text ${at} ${more}>${content}</text>`;
  const grid = decades.flatMap((exponent) => {
    const at = y(10 ** exponent);
    const value = Number((10 ** exponent).toPrecision(1)).toLocaleString("en");
    return [
      `<line x1="${LEFT}" y1="${at}" x2="${right}" y2="${at}" stroke="#ddd"/>`,
      text(`x="${LEFT - 8}" y="${at + 4}"`, value, 'text-anchor="end"'),
    ];
  });
  const ticks = xs.map((value) => text(`x="${x(value)}" y="${floor + 18}"`, `${value}`, 'text-anchor="middle"'));
  const lines = curves.map(({ points }, i) => {
    const path = points.map(([px, py]) => `${x(px)},${y(py)}`).join(" ");
    return `<polyline points="${path}" fill="none" stroke="${COLOURS[i % COLOURS.length]}" stroke-width="2"/>`;
  });
  const names = curves.map(({ name }, i) =>
    text(`x="${right + 12}" y="${TOP + 12 + 20 * i}"`, name, `fill="${COLOURS[i % COLOURS.length]}"`)
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="white"/>`,
    text(`x="${LEFT}" y="22"`, title, 'font-size="15"'),
    ...grid,
    ...ticks,
    text(`x="${(LEFT + right) / 2}" y="${HEIGHT - 10}"`, xName, 'text-anchor="middle"'),
    text(
      `x="16" y="${(TOP + floor) / 2}"`,
      yName,
      `transform="rotate(-90 16 ${(TOP + floor) / 2})" text-anchor="middle"`,
    ),
    ...lines,
    ...names,
    "</svg>",
    "",
  ].join("\n");
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
