/** Printing from a child so that nothing printed is lost when it is killed. */
import { writeSync } from "node:fs";

/** Writes a line to stdout before it returns. */
export function say(line: string): void {
  const bytes = new TextEncoder().encode(`${line}\n`);
  for (let start = 0; start < bytes.length;) {
    try {
      start += writeSync(1, bytes, start);
    } catch (error) {
      if ((error as { code?: string }).code !== "EAGAIN") throw error;
    }
  }
}
