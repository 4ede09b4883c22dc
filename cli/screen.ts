/**
 * How the demo prints: headings, aligned columns, colours and pauses where a person is watching.
 *
 * @module
 */

import process from "node:process";

/** The widest line, in columns. */
export const WIDTH = 98;

const isWatched = process.stdout.isTTY === true;
const isColoured = isWatched && (process.env.NO_COLOR ?? "") === "";

const COLOURS = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

// Who reads may stop reading, as `head` does: then there is nothing left to show, and nothing wrong to report.
process.stdout.on("error", () => process.exit(1));

/** Colours a text, on a terminal that wants it. */
export function paint(colour: keyof typeof COLOURS, text: string): string {
  return isColoured ? `\x1b[${COLOURS[colour]}m${text}\x1b[0m` : text;
}

/** Prints a line. */
export function say(line = ""): void {
  process.stdout.write(line + "\n");
}

/** Prints the heading of a part, with what to look for in it. */
export async function heading(number: number, title: string, ...notes: readonly string[]): Promise<void> {
  await pause(350);
  say();
  say(`${paint("cyan", String(number))}  ${paint("bold", title)}`);
  for (const note of notes) say(`   ${paint("dim", note)}`);
  say();
}

/** Shows how far it is, to a person who waits; the next call takes its place. */
export function progress(text: string): void {
  if (isWatched) process.stdout.write(text === "" ? "\r\x1b[K" : `\r\x1b[K   ${text}`);
}

/** Waits, so that a person can follow; elsewhere not at all. */
export async function pause(milliseconds: number): Promise<void> {
  if (isWatched) await new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** A text of one line, without control characters, cut to a width. */
export function clip(text: string, width: number): string {
  // deno-lint-ignore no-control-regex
  const line = text.replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]+/g, " ");
  const characters = [...line];
  return characters.length <= width ? line : characters.slice(0, width - 1).join("") + "…";
}

/** Prints cells in columns. The last has what is left of the line, and as many lines as it needs. */
export function row(widths: readonly number[], cells: readonly string[], colours: Colours = []): void {
  const last = cells.length - 1;
  const colour = (i: number, text: string) => colours[i] === undefined ? text : paint(colours[i], text);
  let line = "   ";
  let indent = line.length;
  for (let i = 0; i < last; i++) {
    const width = widths[i]!;
    const text = clip(cells[i]!, width);
    line += colour(i, text) + " ".repeat(width - [...text].length + 2);
    indent += width + 2;
  }
  for (const [i, text] of wrap(cells[last]!, WIDTH - indent).entries()) {
    say(`${i === 0 ? line : " ".repeat(indent)}${colour(last, clip(text, WIDTH - indent))}`.trimEnd());
  }
}

type Colours = readonly (keyof typeof COLOURS | undefined)[];

/** Breaks a text into lines. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = "";
    }
    line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}

/** A whole number with separators, as in "3,916". */
export function count(amount: number): string {
  return amount.toLocaleString("en-US");
}
