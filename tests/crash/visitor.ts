/** Opens a log, PATH, to "write" or to "read" it, and prints a line of JSON: the error's code, or what is in the log. */
import process from "node:process";
import { openLog, ThreadlogError } from "../../mod.ts";
import { say } from "../support/children/say.ts";
import { all } from "../support/scratch.ts";
import { lineOf } from "./history.ts";

/** What it says. */
export type Visit = { readonly code: string } | { readonly lines: readonly string[] };

async function visit(path: string, readOnly: boolean): Promise<Visit> {
  try {
    await using log = await openLog(path, { readOnly });
    if (!readOnly) await log.thread("visited").put("k", 1);
    return { lines: (await all(log.read())).map(lineOf) };
  } catch (error) {
    return {
      code: error instanceof ThreadlogError ? error.code : `untyped: ${String((error as Error)?.stack ?? error)}`,
    };
  }
}

const [path, how] = process.argv.slice(2) as [string, string];
say(JSON.stringify(await visit(path, how === "read")));
