/**
 * The tables of the demo.
 *
 * @module
 */

import type { Change, Event } from "../mod.ts";
import { clip, paint, row, say, WIDTH, wrap } from "./screen.ts";

/** What is shown of an operation's value. */
const VALUE_WIDTH = 65;

/** Prints an event with what it means. */
export function eventRow(event: Event, meaning: string): void {
  const what = "key" in event && event.key !== undefined ? `${event.type} ${event.key}` : event.type;
  row([4, 15], [`v${event.version}`, what, meaning], ["dim", event.type.includes(".") ? "yellow" : "cyan"]);
}

/** Prints a change: its key, and each operation under it. */
export function changes(change: Change): void {
  say(`   ${paint("bold", change.key)} ${change.kind}`);
  for (const operation of change.operations) {
    const value = operation.op === "remove" ? "" : JSON.stringify(operation.value);
    const colour = operation.op === "remove" ? "red" : operation.op === "add" ? "green" : "yellow";
    row([2, 8, 14], ["", operation.op, operation.path, clip(value, VALUE_WIDTH)], [undefined, colour]);
  }
}

/** Prints two columns under two titles. A cell of several lines, or a long one, is broken. */
export function sideBySide(titles: readonly [string, string], rows: readonly (readonly string[])[]): void {
  const label = 9;
  const width = Math.floor((WIDTH - 3 - label - 4) / 2);
  const widths = [label, width];
  row(widths, ["", ...titles], [undefined, "bold", "bold"]);
  row(widths, ["", ...titles.map((title) => "-".repeat(Math.min(width, title.length)))], [undefined, "dim", "dim"]);
  for (const [name, ...cells] of rows) {
    const lines = cells.map((cell) => cell.split("\n").flatMap((line) => wrap(line, width)));
    for (let i = 0; i < Math.max(...lines.map(({ length }) => length)); i++) {
      row(widths, [i === 0 ? name! : "", ...lines.map((cell) => clip(cell[i] ?? "", width))], ["dim"]);
    }
  }
}
