/**
 * Why a test is skipped. Only Node's report says it; where Node did not skip it too, the reason is read from the source:
 * `test("name", { skip: condition && "reason" }, ...)`.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./tools.mjs";

/** The reason the test file gives, or that it gives none. */
export function skipReason(file, name) {
  const title = name.split(" > ").at(-1);
  const source = readFileSync(join(ROOT, file), "utf8");
  const at = source.indexOf(title);
  const option = at < 0 ? null : /^[^;]{0,80}?\bskip:\s*([^}]*?)\s*[,}]/.exec(source.slice(at + title.length));
  if (option === null) return "no reason found";
  return /["'`]([^"'`]+)["'`]\s*:?[^"'`]*$/.exec(option[1])?.[1] ?? option[1];
}
