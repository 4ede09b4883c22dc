/**
 * Cuts the power at many points of a recorded run, in many ways, and counts what is wrong afterwards.
 */
import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { rawSql, seeded } from "../support/scratch.ts";
import { Bad, check, place, type Promised } from "./check.ts";
import { CHANCES, Disk, type Fate, type Image } from "./disk.ts";
import { History } from "./history.ts";
import type { Plan } from "./plan.ts";
import { scratchFolder } from "./record.ts";
import type { Action } from "./records.ts";

/** How to look. */
export interface Inspection {
  readonly seed: number;
  /** About how many states to look at. */
  readonly states: number;
  /** What the log promised to survive a power cut: all that was acknowledged and shown, all that was shown, or only a whole prefix. */
  readonly promise: "full" | "seen" | "prefix";
  /** Stops at the first fault. */
  readonly once?: boolean;
  /** Statements that change a state, behind the library's back, before it is looked at. */
  readonly tampering?: readonly string[];
}

/** What was found. */
export interface Findings {
  points: number;
  states: number;
  bad: number;
  /** How often each kind of fault was met. */
  readonly faults: Map<string, number>;
  /** The first fault: where, and what. */
  first: string | undefined;
}

/** Cuts at one point: what has reached the disk for certain, what at most, and what chance leaves. */
const FATES: readonly Fate[] = ["nothing", "everything", ...CHANCES, ...CHANCES];

/** verify() starts a thread, which costs more than all else. Its work is done for each state by comparing the events. */
const VERIFY_EVERY = 5;

/** Looks at states of a recorded run. */
export async function cutPower(plan: Plan, actions: readonly Action[], inspection: Inspection): Promise<Findings> {
  const history = new History(plan, actions);
  const random = seeded(inspection.seed);
  const findings: Findings = { points: 0, states: 0, bad: 0, faults: new Map(), first: undefined };
  const folder = scratchFolder();
  const disk = new Disk();
  const known = new Set<string>();
  const promised = { acknowledged: 0, seen: 0 };
  const isDue = chooser(actions, inspection.states / FATES.length, random);
  const path = join(folder, "cut.db");
  try {
    for (const [index, action] of actions.entries()) {
      disk.follow(action);
      note(action, history, promised, inspection.promise);
      if (!isDue(action)) continue;
      findings.points++;
      for (const fate of FATES) {
        const image = disk.crash(fate, random);
        const print = fingerprint(image, promised);
        if (known.has(print)) continue;
        known.add(print);
        place(image, path);
        // Before anything was promised there may be no tables yet.
        if (promised.acknowledged > 0) rawSql(path, ...inspection.tampering ?? []);
        await look(path, history, promised, findings, `record ${index}, ${fate}`);
        if (inspection.once && findings.bad > 0) return findings;
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return findings;
}

function note(
  action: Action,
  history: History,
  promised: { acknowledged: number; seen: number },
  promise: Inspection["promise"],
): void {
  if (action.what !== "note" || promise === "prefix") return;
  const { note } = action;
  if (note.kind === "acknowledged" && promise === "full") {
    promised.acknowledged = Math.max(promised.acknowledged, history.endOf(note.id));
  } else if (note.kind === "seen" || note.kind === "found") {
    const position = note.kind === "seen" ? note.position : note.events.at(-1)?.position ?? 0;
    promised.seen = Math.max(promised.seen, position);
  }
}

/** Half of the points are just after something was promised, where a loss shows; the others are anywhere. */
function chooser(actions: readonly Action[], points: number, random: () => number): (action: Action) => boolean {
  const isPromise = (action: Action) =>
    action.what === "note" && ["acknowledged", "seen", "found"].includes(action.note.kind);
  const promises = actions.filter(isPromise).length;
  const others = actions.length - promises;
  return (action) =>
    action.what === "note" && action.note.kind === "found" ||
    random() < points / 2 / (isPromise(action) ? promises : others);
}

function fingerprint(image: Image, promised: Promised): string {
  const hash = createHash("sha1").update(JSON.stringify(promised));
  for (const bytes of image) hash.update(`${bytes?.length}`).update(bytes ?? "");
  return hash.digest("base64");
}

async function look(
  path: string,
  history: History,
  promised: Promised,
  findings: Findings,
  where: string,
): Promise<void> {
  findings.states++;
  try {
    await check(path, history, promised, findings.states % VERIFY_EVERY === 0);
  } catch (error) {
    const word = error instanceof Bad ? error.word : "unexpected";
    findings.bad++;
    findings.faults.set(word, (findings.faults.get(word) ?? 0) + 1);
    findings.first ??= `${where}: ${String((error as Error).message).slice(0, 600)}`;
  }
}
