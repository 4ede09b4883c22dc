/**
 * Commands that read: the past, the differences, the listings.
 */
import assert from "node:assert/strict";
import type { ThreadId } from "../../mod.ts";
import type { Found, LogModel } from "../support/log_model.ts";
import { all } from "../support/scratch.ts";
import { sameChanges, sameEvents, sameSnapshot, sameState, sameThreads, sameView } from "./agreement.ts";
import { byLabels, type Expected, isBelow, nameOf, type Session } from "./session.ts";

/** Takes a snapshot. */
export function snapshot(expected: Expected, session: Session, reader: number): void {
  const snapshot = session.log(reader).snapshot();
  const model = expected.log;
  const { position } = snapshot;
  const shows = new Map([...model.threads.keys()].map((name) => [name, model.find(name, { position })]));
  expected.snapshots.push({ snapshot, shows, listed: model.listed(position) });
}

/** Reads a snapshot that was taken earlier. */
export async function readSnapshot(expected: Expected, choice: number): Promise<void> {
  const kept = expected.snapshots[choice % expected.snapshots.length];
  if (kept !== undefined) await sameSnapshot(kept, expected.log);
}

/** Reads a thread at a version; one beyond the head is refused. */
export async function readVersion(
  { log: model }: Expected,
  session: Session,
  reader: number,
  id: ThreadId,
  choice: number,
) {
  const name = nameOf(id);
  const version = choice % (model.version(name) + 2);
  const found = version > model.version(name) ? "beyond" : model.find(name, { version });
  await sameView(session.log(reader).thread(id).at(version), found, true);
}

/** Reads a thread at a position, both ways that there are. */
export async function readPosition(
  { log: model }: Expected,
  session: Session,
  reader: number,
  id: ThreadId,
  choice: number,
) {
  const position = choice % (model.position + 1);
  const found = model.find(nameOf(id), { position });
  const log = session.log(reader);
  await sameView(log.thread(id).at({ position }), found, false);
  await sameView(log.at(position).thread(id), found, false);
  sameThreads(await all(log.at(position).threads()), model.listed(position));
}

/** Reads a thread at a time. */
export async function readTime(
  { log: model }: Expected,
  session: Session,
  reader: number,
  id: ThreadId,
  choice: number,
) {
  const events = model.kept();
  const chosen = events[choice % events.length];
  if (chosen === undefined) return;
  const last = events.findLast(({ time }) => time <= chosen.time)!;
  const found = model.find(nameOf(id), { position: last.position });
  // Between events that were removed, one can't tell whether the thread had begun.
  if (typeof found === "string") return;
  await sameState(session.log(reader).thread(id).at(new Date(chosen.time)), found.state, found.event);
}

/** Differences of the log, forward and backward, between positions or snapshots. */
export async function diffLog(
  expected: Expected,
  session: Session,
  reader: number,
  choices: readonly [number, number],
  prefix: ThreadId | readonly [],
): Promise<void> {
  const { log: model, snapshots } = expected;
  const points = choices.map((choice) => {
    const count = model.position + 1;
    const kept = choice >= count ? snapshots[choice % (snapshots.length || 1)] : undefined;
    return kept?.snapshot ?? choice % count;
  });
  const [from, to] = points as [number, number];
  const positions = points.map((point) => typeof point === "number" ? point : point.position);
  const changes = await all(session.log(reader).diff(from, to, { prefix }));
  const states = (name: string) => positions.map((position) => model.find(name, { position })) as [Found, Found];
  sameChanges(changes, model, states, prefix);
}

/** Differences of a thread, forward and backward. */
export async function diffThread(
  { log: model }: Expected,
  session: Session,
  reader: number,
  id: ThreadId,
  choices: readonly [number, number],
): Promise<void> {
  const name = nameOf(id);
  const versions = choices.map((choice) => choice % (model.version(name) + 1)) as [number, number];
  const changes = await all(session.log(reader).thread(id).diff(...versions));
  const states = (other: string) =>
    versions.map((version) => other === name ? model.find(name, { version }) : "nothing") as [Found, Found];
  sameChanges(changes, model, states);
}

/** A part of a thread's events, in either direction. */
export async function replayPart(
  { log: model }: Expected,
  session: Session,
  reader: number,
  id: ThreadId,
  [from, length, limit]: readonly [number, number, number],
  reverse: boolean,
): Promise<void> {
  const head = model.version(nameOf(id));
  const low = from % (head + 1);
  const to = Math.min(head, low + length % (head + 1));
  const events = await all(session.log(reader).thread(id).replay({ from: low, to, reverse, limit: limit % 10 }));
  const expected = model.history(nameOf(id)).filter(({ version }) => version >= low && version <= to);
  sameEvents(events, (reverse ? expected.reverse() : expected).slice(0, limit % 10));
}

/** A part of the log's events. */
export async function readPart(
  { log: model }: Expected,
  session: Session,
  reader: number,
  [after, length, limit]: readonly [number, number, number],
  prefix: ThreadId | readonly [],
  types: readonly string[] | undefined,
): Promise<void> {
  const low = after % (model.position + 1);
  const to = Math.min(model.position, low + length);
  const options = { after: low, to, prefix, limit: limit % 20, ...(types !== undefined && { types }) };
  const expected = model.kept().filter(({ position, thread, type }) =>
    position > low && position <= to && isBelow(thread, prefix) && (types?.includes(type) ?? true)
  );
  sameEvents(await all(session.log(reader).read(options)), expected.slice(0, limit % 20));
}

/** A part of the threads. */
export async function listPart(
  { log: model }: Expected,
  session: Session,
  reader: number,
  prefix: ThreadId | readonly [],
  after: ThreadId | undefined,
  limit: number,
): Promise<void> {
  const options = { prefix, limit, ...(after !== undefined && { after }) };
  const listed = await all(session.log(reader).threads(options));
  sameThreads(listed, listedIn(model, prefix, after).slice(0, limit));
  assert.ok(listed.length <= limit);
}

function listedIn(model: LogModel, prefix: ThreadId | readonly [], after: ThreadId | undefined) {
  return model.listed(model.position)
    .filter(({ thread: { name } }) =>
      isBelow(name, prefix) && (after === undefined || byLabels(name, nameOf(after)) > 0)
    )
    .sort((a, b) => byLabels(a.thread.name, b.thread.name));
}
