/**
 * Taking over events of another log as they are: appending would give them places and times of their own.
 *
 * @module
 */

import type { AdoptedEvent, Piece, ThreadRecord } from "../../log/backend.ts";
import { FIRST_LINK } from "../../log/digest.ts";
import { notNextError, ThreadlogError } from "../../log/errors.ts";
import { showPath } from "../../log/ids.ts";
import type { Base } from "../embedded/event_store.ts";
import { ownerOf } from "../embedded/lineage.ts";
import type { Payloads } from "../embedded/payloads.ts";
import { requestAncestorPurges } from "../embedded/sequencer.ts";
import type { SqliteStore } from "./sqlite_store.ts";

/** Takes over a piece. Runs inside a transaction. */
export function adoptPiece(store: SqliteStore, payloads: Payloads, { after, events, threads }: Piece): void {
  const { position: head } = store.head();
  if (head !== after) throw notNextError(head, after);
  for (const record of threads) addThread(store, record);
  let last = head;
  for (const event of events) {
    if (event.position > last + 1) store.skip(event.position - last - 1);
    last = event.position;
    adopt(store, payloads, event);
  }
}

function addThread(store: SqliteStore, { path, created, parent, erased }: ThreadRecord): void {
  if (store.node(path) !== undefined) return;
  const owner = parent && store.node(parent.path);
  if (parent !== undefined && owner === undefined) {
    throw new ThreadlogError("corrupt", `Thread ${showPath(path)} was forked from one that is missing`, {
      place: `thread ${showPath(path)}`,
      remedy: "Run verify() on the log that it comes from.",
    });
  }
  store.createNode(path, created, owner && { id: owner.id, version: parent!.version }, erased);
}

function adopt(store: SqliteStore, payloads: Payloads, event: AdoptedEvent): void {
  const { position, version, time, latest, link, type, origin } = event;
  const node = store.node(event.path)!;
  const input = { ...event, digest: FIRST_LINK };
  store.insert(node, input, payloads.pack(node, input, position), { position, version, time, latest, link });
  payloads.inserted(node, input, position);
  if (type === "fork" || type === "restore") {
    store.insertBase({ thread: node.id, position, origin: placeOf(store, event, origin!) });
  } else if (type === "erase") {
    store.insertBase({ thread: node.id, position, origin: { thread: 0, position: 0 } });
    store.erase(node, version - 1, position);
    requestAncestorPurges(store, node);
  }
}

function placeOf(
  store: SqliteStore,
  { position }: AdoptedEvent,
  origin: NonNullable<AdoptedEvent["origin"]>,
): Base["origin"] {
  if (origin.version === 0) return { thread: 0, position: 0 };
  const node = store.node(origin.path);
  const found = node && ownerOf(store, node, origin.version);
  if (found !== undefined) return found;
  throw new ThreadlogError("corrupt", `What the event at position ${position} continues from is missing`, {
    place: `position ${position}`,
    remedy: "Run verify() on the log that it comes from.",
  });
}
