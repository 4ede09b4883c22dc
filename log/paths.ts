/**
 * Where a file is, as callers say it: a path, or a `file:` URL.
 *
 * @module
 */

import { fileURLToPath } from "node:url";
import { guarded } from "./arguments.ts";
import { invalid } from "./errors.ts";

const SHAPES = 'Pass a path such as "agent.db", or a file: URL.';

/** Checks what names a file; gives its path. */
export function parsePath(target: unknown, place: string): string {
  const text = guarded(place, () => target instanceof URL ? target.href : target);
  if (typeof text !== "string" || text === "") throw invalid("A file is named by its path", place, SHAPES);
  const path = /^file:/i.test(text) ? pathOfUrl(text, place) : text;
  if (path.includes("\0")) throw invalid("No file's name holds U+0000", place, SHAPES);
  if (!path.isWellFormed()) {
    throw invalid("This path holds a lone surrogate", place, "Well-formed Unicode only: it would name another file.");
  }
  if (/^:mem/i.test(path)) {
    throw invalid(
      `${JSON.stringify(path.slice(0, 20))} names no file`,
      place,
      'A log in memory is opened by ":memory:"; a file of such a name, by "./" and its name.',
    );
  }
  return path;
}

function pathOfUrl(text: string, place: string): string {
  // As a URL, "file:agent.db" is at the root of the file system, which nobody means.
  if (!/^file:\/\//i.test(text)) {
    throw invalid(
      "A file: URL begins with file:///",
      place,
      'Pass the path alone, as in "agent.db"; a file of such a name, by "./" and its name.',
    );
  }
  try {
    const url = new URL(text);
    if (url.search === "" && url.hash === "") return fileURLToPath(url);
  } catch (cause) {
    throw invalid("This URL names no file of this machine", place, "Make one by pathToFileURL(path).", cause);
  }
  throw invalid(
    "The URL of a file has no query and no fragment",
    place,
    "Pass what it asks for as options; in a name, ? is %3F and # is %23.",
  );
}
