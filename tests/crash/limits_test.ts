/**
 * The kernel's own refusals, on every runtime: a file that may not grow, a disk that is full for a while, a folder that
 * has become read-only. Which call fails is left to it; faults_test.ts chooses.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { openLog } from "../../mod.ts";
import { ARGUMENTS, pathOf, type Runtime, runtimes } from "../support/processes.ts";
import { all } from "../support/scratch.ts";
import { checkCodes, goesOn, notesOf, reopen } from "./aftermath.ts";
import { lineOf } from "./history.ts";
import type { Plan } from "./plan.ts";
import { noRecorder, type Run, run, runInShell, scratchFolder } from "./record.ts";
import type { Note, Task } from "./records.ts";
import { report } from "./table.ts";
import type { Visit } from "./visitor.ts";

const PLAN: Plan = { seed: Number(process.env.THREADLOG_SEED ?? 1), bytes: 300 };
const VISITOR = fileURLToPath(new URL("visitor.ts", import.meta.url));

/** In blocks of 512 bytes: more than the database and the notes take, less than a WAL that is never begun anew. */
const LIMIT = "ulimit -S -f 512";
/** The disk takes the whole run; what is left beside the ballast, only some of it. */
const DISK = `mount -t tmpfs -o size=8m none "$PLACE" && head -c 8000000 /dev/zero > "$PLACE/ballast"`;
const READ_ONLY = `mount --bind "$PLACE" "$PLACE" && mount -o remount,bind,ro "$PLACE"`;

const noShell: string | false = process.platform === "win32" ? "it needs a POSIX shell" : false;
const noMounts: string | false = mounts(DISK) && mounts(READ_ONLY) ? false : "nothing can be mounted in a namespace";

/** A script in which `script` is done first; of its mounts nothing is seen outside, so they need no rights. */
function inNamespace(place: string, script: string, then: string): string {
  return `PLACE='${place}' exec unshare -rm sh -c '${script} && ${then}' sh "$@"`;
}

function mounts(script: string): boolean {
  const folder = scratchFolder();
  try {
    return spawnSync("sh", ["-c", inNamespace(folder, script, "exec true")]).status === 0;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function inScratch(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = scratchFolder();
  try {
    await body(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A run that fills some hundred kilobytes: its WAL is never begun anew. */
function taskIn(folder: string): Task {
  const files = { path: join(folder, "log.db"), record: join(folder, "record") };
  return { ...files, plan: PLAN, durability: "full", first: 0, steps: 120, sessions: 1, lanes: 2, watch: false };
}

/** What a run was refused; it must have a code. */
function refusals(ran: Run): Note[] {
  const notes = notesOf(ran);
  checkCodes(notes);
  return notes.filter(({ kind }) => kind === "refused");
}

async function limited(runtime: Runtime, isIgnored: boolean, folder: string): Promise<void> {
  const script = `${isIgnored ? "trap '' XFSZ; " : ""}${LIMIT}; exec "$@"`;
  const task = taskIn(folder);
  const ran = await runInShell(runtime, script, task);
  const refused = refusals(ran);
  // The signal kills where the runtime leaves it as it is.
  if (isIgnored || ran.code !== null) {
    assert.equal(ran.code, 0, ran.errors);
    assert.ok(refused.length > 0, "what does not fit is refused");
  }
  await reopen(task.path, PLAN, notesOf(ran));
}

/** The disk is gone with its namespace: the log is copied from it first. */
async function filled(runtime: Runtime, folder: string): Promise<void> {
  const [place, kept] = [join(folder, "disk"), join(folder, "kept")];
  for (const path of [place, kept]) mkdirSync(path);
  const script = inNamespace(place, DISK, `{ "$@"; code=$?; cp "$PLACE"/log.db* "${kept}"; exit $code; }`);
  const task = { ...taskIn(place), record: join(folder, "record"), ballast: join(place, "ballast") };
  const ran = await runInShell(runtime, script, task);
  assert.equal(ran.code, 0, ran.errors);
  const codes = refusals(ran).map((note) => (note as { code: string }).code);
  assert.ok(codes.includes("storage"), `a full disk is told from others: ${codes}`);
  assert.ok(goesOn(notesOf(ran)), "with space, the log goes on");
  await reopen(join(kept, "log.db"), PLAN, notesOf(ran));
}

function visit(runtime: Runtime, place: string, how: "read" | "write"): Visit {
  const command = [pathOf(runtime)!, ...ARGUMENTS[runtime], VISITOR, join(place, "log.db"), how];
  const script = inNamespace(place, READ_ONLY, 'exec "$@"');
  const { stdout, stderr } = spawnSync("sh", ["-c", script, "sh", ...command], { encoding: "utf8" });
  assert.notEqual(stdout, "", stderr);
  return JSON.parse(stdout);
}

/** A writer was killed, and what it left can't be written to: its WAL can't be brought into the database. */
async function remounted(folder: string): Promise<void> {
  const { record: _, ...task } = taskIn(folder);
  const ran = await run(task, { fault: "kill:write.wal:121:0:once", recording: false });
  assert.equal(ran.code, null, ran.errors);
  const visits = runtimes.map((runtime) => [visit(runtime, folder, "write"), visit(runtime, folder, "read")] as const);
  await using log = await openLog(task.path, { durability: "normal" });
  const lines = (await all(log.read())).map(lineOf);
  for (const [written, read] of visits) {
    assert.match((written as { code: string }).code, /^(read_only|storage)$/, JSON.stringify(written));
    assert.deepEqual(read, { lines });
  }
  await reopen(task.path, PLAN, notesOf(ran));
}

const CASES: Readonly<Record<string, (runtime: Runtime, folder: string) => Promise<void>>> = {
  "a file that may not grow": (runtime, folder) => limited(runtime, true, folder),
  "the same, by a signal": (runtime, folder) => limited(runtime, false, folder),
  "a full disk, until there is space": filled,
};

describe("nothing acknowledged is lost by", { skip: noShell }, () => {
  for (const [name, body] of Object.entries(CASES)) {
    it(name, { skip: body === filled && noMounts }, async () => {
      for (const runtime of runtimes) await inScratch((folder) => body(runtime, folder));
      report({ part: "fault", name: `the kernel's: ${name}`, states: runtimes.length, bad: 0 });
    });
  }

  it("a kill, and a folder that is then mounted read-only", { skip: noMounts || noRecorder }, async () => {
    await inScratch(remounted);
    report({ part: "fault", name: "the kernel's: read-only", states: 2 * runtimes.length, bad: 0 });
  });
});
