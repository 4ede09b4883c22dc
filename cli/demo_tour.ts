/**
 * The tour: a conversation is appended, killed, continued, replayed, compared, forked, blamed and verified. Everything
 * that it claims it checks.
 *
 * @module
 */

import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { apply, type Event, type Log, openLog, type Thread } from "../mod.ts";
import { runUntilKilled } from "./child_process.ts";
import { BY_FERRY, describe, OTHERWISE, route, type Step, STORY, take, TRIP, type Trip } from "./demo_story.ts";
import { changes, eventRow, sideBySide } from "./demo_tables.ts";
import { count, heading, paint, pause, row, say } from "./screen.ts";

/** How many events are acknowledged before the writer is killed. */
const ACKNOWLEDGED = 6;
/** The version at which the agent decides anew: both ways out are known, none is taken. */
const DECISION = 12;
const FACTS = [15];

/** Takes the tour with a log in a folder. */
export async function tour(folder: string): Promise<void> {
  const file = join(folder, "trip.db");
  const acknowledged = await writeAndKill(file);
  const log = await openLog(file);
  try {
    const thread = log.thread<Trip>(TRIP);
    const found = await compareWithAcknowledged(log, thread, acknowledged);
    await goOn(thread, acknowledged.length, found);
    await travel(thread);
    await compare(thread);
    const fork = await goElsewhere(log, thread);
    await showBoth(thread, fork);
    await askWho(thread, fork);
    await verify(log);
  } finally {
    await log.close();
  }
}

/** Something that the tour claims; if it does not hold, the demo has failed. */
function check(holds: boolean, claim: string): void {
  if (!holds) throw new Error(`This should hold, and does not: ${claim}`);
}

async function writeAndKill(file: string): Promise<Event[]> {
  await heading(
    1,
    "An agent plans a trip, in a process of its own",
    "Each line is one event of one thread, printed when the log has acknowledged it: from then on",
    "not even a power cut may lose it.",
  );
  const events: Event[] = [];
  const { pid, lines } = await runUntilKilled("demo_writer.ts", [file], ACKNOWLEDGED, async (line) => {
    const event = JSON.parse(line) as Event;
    eventRow(event, describe(STORY[events.length]!));
    events.push(event);
    await pause(250);
  });
  say();
  say(`   ${paint("red", "SIGKILL")}  process ${pid} is gone, in the middle of its next append.`);
  check(lines.length >= ACKNOWLEDGED && lines.length < STORY.length, "the writer was killed in the middle");
  return events;
}

async function compareWithAcknowledged(log: Log, thread: Thread<Trip>, acknowledged: Event[]): Promise<number> {
  await heading(2, "The file is opened again, by another process", "Nothing was closed, flushed or said goodbye to.");
  const kept: Event[] = [];
  for await (const event of thread.replay()) kept.push(event);
  // What the writer printed has been through JSON; so must what it is held against.
  const plain = JSON.parse(JSON.stringify(kept.slice(0, acknowledged.length)));
  const isAllThere = isDeepStrictEqual(plain, acknowledged);
  check(isAllThere, "every acknowledged event is in the file as it was acknowledged");
  const extra = kept.length - acknowledged.length;
  check(extra === 0 || extra === 1, "at most the one event that was under way is there beyond them");
  const report = await log.verify();
  check(report.ok, "the hash chain fits after the kill");
  row(FACTS, ["acknowledged", `${acknowledged.length} events`]);
  row(FACTS, ["found", `${acknowledged.length} of ${acknowledged.length}, equal in every field`], [undefined, "green"]);
  row(FACTS, [
    "under way",
    acknowledged.length > ACKNOWLEDGED
      ? "nothing: the kill came just after an acknowledgement"
      : extra === 1
      ? "there, and whole: only its acknowledgement did not arrive"
      : "not there, not even in part: it was never acknowledged",
  ]);
  row(FACTS, ["hash chain", "ok"], [undefined, "green"]);
  return kept.length;
}

async function goOn(thread: Thread<Trip>, acknowledged: number, found: number): Promise<void> {
  await heading(
    3,
    "The conversation goes on where it stopped",
    "Was the step under way kept? No need to know: it is taken again under the same id, and kept once.",
  );
  await takeAll(thread, STORY.slice(acknowledged), found);
  const { version } = await thread.head();
  check(version === STORY.length, "every step is there once");
}

async function takeAll(thread: Thread<Trip>, steps: readonly Step[], known: number): Promise<void> {
  for (const step of steps) {
    const event = await take(thread, step);
    eventRow(event, describe(step) + (event.version <= known ? " (was there already)" : ""));
    await pause(150);
  }
}

async function travel(thread: Thread<Trip>): Promise<void> {
  await heading(
    4,
    `Back to version ${DECISION}: what did the agent know when it had to decide?`,
    `thread.at(${DECISION}).get("plan")`,
  );
  const then = thread.at(DECISION);
  const plan = await then.get("plan");
  const messages = await then.get("messages");
  check(plan?.status === "held" && messages?.length === 3, "version 12 is as it was");
  row(FACTS, ["plan", `${route(plan!)}, ${plan!.status}, ${plan!.euros} euros`]);
  row(FACTS, ["last message", `${messages!.at(-1)!.role}: ${messages!.at(-1)!.text}`]);
  const calls = await thread.fold(0, (sum, event) => sum + (event.type === "tool.called" ? 1 : 0), { to: DECISION });
  row(FACTS, ["tool calls", `${calls}, folded from the ${DECISION} events up to there`]);
  const first = await thread.bisect(async (view) => (await view.get("plan"))?.status === "booked");
  check(first === STORY.length, "the trip is booked by the last event");
  row(FACTS, ["booked since", `version ${first}, found by halving: thread.bisect(...)`]);
}

async function compare(thread: Thread<Trip>): Promise<void> {
  const { version } = await thread.head();
  await heading(
    5,
    `What changed between version ${DECISION} and version ${version}?`,
    `thread.diff(${DECISION}, ${version}): net changes per key, as RFC 6902 operations`,
  );
  for await (const change of thread.diff(DECISION, version)) {
    changes(change);
    check(
      isDeepStrictEqual(apply(change.before, change.operations), change.after),
      "the operations, applied to the value before, give the value after",
    );
  }
  say();
  say(`   ${paint("dim", `Applied to version ${DECISION}, they give version ${version}: checked.`)}`);
}

async function goElsewhere(log: Log, thread: Thread<Trip>): Promise<Thread<Trip>> {
  await heading(
    6,
    `What if? A fork at version ${DECISION} takes the ferry`,
    `thread.fork(["trips", "ada", "by-ferry"], { at: ${DECISION} }) shares the history and copies nothing.`,
  );
  const before = log.snapshot();
  const fork = await thread.fork(BY_FERRY, { at: DECISION });
  check(
    isDeepStrictEqual(await fork.get("plan"), await thread.at(DECISION).get("plan")),
    "a fork starts as its parent",
  );
  for await (const event of fork.replay({ from: DECISION + 1 })) {
    eventRow(event, `of ${TRIP.join("/")}, at version ${DECISION}`);
  }
  await takeAll(fork, OTHERWISE, 0);
  const touched = new Set<string>();
  for await (const { thread } of log.diff(before, log.snapshot())) touched.add([thread].flat().join("/"));
  check(touched.size === 1 && touched.has(BY_FERRY.join("/")), "a fork changes nothing in its parent");
  say();
  say(`   ${paint("dim", `Changed in the whole log since the fork: ${[...touched].join(", ")}, and nothing else.`)}`);
  return fork;
}

async function showBoth(thread: Thread<Trip>, fork: Thread<Trip>): Promise<void> {
  await heading(7, "Two endings, side by side");
  const [a, b] = [await thread.get("plan"), await fork.get("plan")];
  check(a?.status === "booked" && a.euros === 264, "the first ending is by Berlin");
  check(b?.status === "booked" && b.euros === 196, "the second ending is by ferry");
  const [here, there] = [await thread.head(), await fork.head()];
  const words = [await thread.get("messages"), await fork.get("messages")].map((list) => list!.at(-1)!.text);
  sideBySide(
    [TRIP.join("/"), BY_FERRY.join("/")],
    [
      ["events", `${here.version}`, `${there.version}, of which ${DECISION} are shared`],
      ["status", a!.status, b!.status],
      ["way", ...[a!, b!].map((plan) => plan.legs.map((leg) => `${leg.leaves}  ${leg.by}, ${leg.from}`).join("\n"))],
      ["night", a!.hotel ?? "on the ferry", b!.hotel ?? "on the ferry"],
      ["arrives", a!.arrives, b!.arrives],
      ["price", `${a!.euros} euros`, `${b!.euros} euros`],
      ["Ada", ...words],
    ],
  );
}

async function askWho(thread: Thread<Trip>, fork: Thread<Trip>): Promise<void> {
  await heading(8, "Who decided that?", "thread.blame(key, pointer): the event that last changed this");
  const questions: readonly [Thread<Trip>, string, string][] = [
    [thread, "/seats", "plan"],
    [thread, "/legs/0", "replan"],
    [thread, "/status", "booked"],
    [fork, "/seats", "plan"],
    [fork, "/legs/2", "replan-ferry"],
  ];
  const widths = [18, 12, 4, 5, 4];
  row(widths, ["thread", "part of plan", "", "event", "by", "why"], Array(6).fill("dim"));
  for (const [asked, pointer, id] of questions) {
    const event = await asked.blame("plan", pointer);
    check(event?.id === id, `${pointer} comes from the step "${id}"`);
    const { by, why } = event!.meta as { by: string; why: string };
    row(widths, [[asked.id].flat().join("/"), pointer, `v${event!.version}`, event!.type, by, why]);
  }
}

async function verify(log: Log): Promise<void> {
  await heading(9, "Does every event still fit?", "log.verify(): the hash chain of each thread, and the file itself");
  const report = await log.verify();
  check(report.ok, "every event fits");
  const { engine, threads } = await log.stats();
  row(FACTS, ["verified", `${count(report.events)} events in ${threads} threads: ok`], [undefined, "green"]);
  row(FACTS, ["engine", engine]);
}
