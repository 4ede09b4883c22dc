/**
 * Events in the tables of schema.ts.
 *
 * @module
 */

import { type BackendStats, type EventInput, Form, type LogHead, type Placement } from "../../log/backend.ts";
import type { SavedState } from "../../log/backend.ts";
import type { BuiltInType } from "../../log/event.ts";
import { FIRST_LINK } from "../../log/digest.ts";
import type { ThreadPath } from "../../log/ids.ts";
import type { Position, Version } from "../../log/position.ts";
import type { Base, EventStore, KeyPage, PackedBytes, PackedEvent } from "../embedded/event_store.ts";
import type { Stretch, ThreadNode } from "../embedded/event_store.ts";
import { behind, bytes, corrupt, decodeName, integer, keyBlob, keyOf } from "./cells.ts";
import type { Connection, Row } from "./driver.ts";
import { EventIndex } from "./event_index.ts";
import { prepareAll, type Statements } from "./statements.ts";

/** How many threads' heads are remembered: about 300 bytes each. */
const NODE_CACHE = 20_000;
/** How many bases of a thread are remembered. */
const MAX_BASES = 64;

const TYPE_CODES: readonly BuiltInType[] = ["set", "patch", "delete", "fork", "restore", "erase"];

const utf8 = new TextEncoder();

/** The store. */
export class SqliteStore implements EventStore {
  readonly engine: string;
  readonly #sql: Statements;
  readonly #index: EventIndex;
  readonly #nodes = new Map<string, ThreadNode>();
  readonly #nodesById = new Map<number, ThreadNode>();
  readonly #paths = new Map<number, ThreadPath>();
  /** All bases of a thread, in order; null where they are too many. Most threads have none. */
  readonly #bases = new Map<number, readonly Base[] | null>();
  /** Heads are trusted until somebody else has written; the owner calls `forget()` then. */
  #head: LogHead | undefined;

  constructor(connection: Connection) {
    const { version } = connection.prepare("SELECT sqlite_version() AS version").get()!;
    this.engine = `sqlite ${version} (${connection.driver})`;
    this.#sql = prepareAll(connection);
    this.#index = new EventIndex(this.#sql);
  }

  /** Drops what was remembered, after another connection wrote. */
  forget(): void {
    this.#nodes.clear();
    this.#nodesById.clear();
    this.#paths.clear();
    this.#bases.clear();
    this.#head = undefined;
    this.#index.forget();
  }

  /** The same, after a transaction of ours was undone. */
  undo(): void {
    this.forget();
    this.#index.undo();
  }

  /** Brings the index tables up to date, once that is worth it. Runs inside a transaction. */
  index(): void {
    this.#index.flush();
  }

  head(): LogHead {
    if (this.#head === undefined) {
      const row = this.#sql.head.get();
      this.#head = row === undefined
        ? { position: 0, time: 0 }
        : { position: integer(row, "position"), time: integer(row, "time") };
    }
    return this.#head;
  }

  node(path: ThreadPath): ThreadNode | undefined {
    const known = this.#nodes.get(path);
    if (known !== undefined) return known;
    const row = this.#sql.nodeByPath.get(utf8.encode(path));
    return row && this.#remember(row);
  }

  nodeById(id: number): ThreadNode {
    const known = this.#nodesById.get(id);
    if (known !== undefined) return known;
    const row = this.#sql.nodeById.get(id);
    if (row === undefined) throw corrupt(`Thread number ${id} is missing`, "table threads");
    return this.#remember(row);
  }

  /** Asks for no more than the path: one damaged event must not spoil the others of its thread. */
  #pathOf(id: number): ThreadPath {
    const known = this.#nodesById.get(id)?.path ?? this.#paths.get(id);
    if (known !== undefined) return known;
    const row = this.#sql.nodeById.get(id);
    if (row === undefined) throw corrupt(`Thread number ${id} is missing`, "table threads");
    const path = decodeName(row, "path") as ThreadPath;
    if (this.#paths.size >= NODE_CACHE) this.#paths.clear();
    this.#paths.set(id, path);
    return path;
  }

  nodes(prefix: string, after: string | undefined, limit: number): readonly ThreadNode[] {
    // "" is a TEXT, which SQLite orders before every BLOB.
    const rows = this.#sql.nodes.all(
      after === undefined ? "" : utf8.encode(after),
      prefix === "" ? "" : utf8.encode(prefix),
      behind(prefix),
      limit,
    );
    return rows.map((row) => {
      const path = decodeName(row, "path") as ThreadPath;
      return this.#nodes.get(path) ?? this.#remember(row);
    });
  }

  #remember(row: Row): ThreadNode {
    const id = integer(row, "id");
    const at = this.#index.headOf(id);
    const head = at === undefined ? undefined : this.#sql.nodeHead.get(at);
    // A thread that came from a later one, or from itself, would be followed for ever.
    if (row.parent !== null && integer(row, "parent") >= id) {
      throw corrupt(`Thread number ${id} was forked from one that came later`, "table threads");
    }
    const node: ThreadNode = {
      id,
      path: decodeName(row, "path") as ThreadPath,
      created: integer(row, "created"),
      parent: row.parent === null ? undefined : {
        id: integer(row, "parent"),
        version: integer(row, "parent_version"),
      },
      version: head ? integer(head, "version") : 0,
      position: head ? integer(head, "position") : 0,
      time: head ? integer(head, "time") : 0,
      latest: head ? integer(head, "latest") : 0,
      link: head ? bytes(head, "link")! : FIRST_LINK,
      erased: integer(row, "erased"),
      tombstone: integer(row, "tombstone"),
    };
    this.#cache(node);
    return node;
  }

  #cache(node: ThreadNode): void {
    if (this.#nodes.size >= NODE_CACHE) {
      this.#nodes.clear();
      this.#nodesById.clear();
    }
    this.#nodes.set(node.path, node);
    this.#nodesById.set(node.id, node);
  }

  event(position: Position): PackedEvent | undefined {
    return this.#event(this.#sql.event.get(position));
  }

  positionOf(thread: number, version: Version): Position | undefined {
    return this.#index.positionOf(thread, version);
  }

  newest(stretch: Stretch, key: string): PackedEvent | undefined {
    return this.#indexed(this.#index.newest(stretch, key));
  }

  keys(
    stretch: Stretch,
    prefix: string,
    after: string | undefined,
    limit: number,
    reverse: boolean,
  ): KeyPage {
    return this.#index.keys(stretch, prefix, after, limit, reverse);
  }

  own(thread: number, from: Version, to: Version, limit: number, reverse: boolean): readonly PackedEvent[] {
    const first = this.#index.firstRecent(thread);
    const indexed = (limit: number) =>
      from >= first || limit <= 0
        ? []
        : (reverse ? this.#sql.ownDown : this.#sql.ownUp).all(thread, from, Math.min(to, first - 1), limit)
          .map((row) => this.#event(row)!);
    const recent = (limit: number) =>
      this.#index.recent(thread, from, to, limit, reverse).map((position) => this.#indexed(position)!);
    const [before, behind] = reverse ? [recent, indexed] : [indexed, recent];
    const events = before(limit);
    return [...events, ...behind(limit - events.length)];
  }

  scan(after: Position, to: Position, limit: number): readonly PackedEvent[] {
    return this.#sql.scan.all(after, to, limit).map((row) => this.#event(row)!);
  }

  byId(thread: number, id: string): PackedEvent | undefined {
    return this.#indexed(this.#index.byId(thread, id));
  }

  positionAt(time: number, to: Position): Position {
    let low = 0;
    let high = to;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      // Erased positions tell no time: the next one before them that does decides.
      const row = this.#sql.timeBefore.get(middle);
      const known = row === undefined ? 0 : integer(row, "position");
      if (known <= low || integer(row!, "time") <= time) low = middle;
      else high = known - 1;
    }
    return low;
  }

  baseBefore(thread: number, position: Position): Base | undefined {
    let bases = this.#bases.get(thread);
    if (bases === undefined) {
      if (this.#bases.size >= NODE_CACHE) this.#bases.clear();
      const rows = this.#sql.basesOf.all(thread, MAX_BASES + 1);
      this.#bases.set(thread, bases = rows.length > MAX_BASES ? null : rows.map(baseOf));
    }
    if (bases !== null) return bases.findLast((base) => base.position <= position);
    const row = this.#sql.baseBefore.get(thread, position);
    return row && baseOf(row);
  }

  basesOn(thread: number): readonly Base[] {
    return this.#sql.basesOn.all(thread).map(baseOf);
  }

  createNode(path: ThreadPath, created: Position, parent: ThreadNode["parent"], erased: Version): ThreadNode {
    const { id = null, version = null } = parent ?? {};
    const row = this.#sql.createNode.get(utf8.encode(path), created, id, version, erased)!;
    const node: ThreadNode = {
      id: integer(row, "id"),
      path,
      created,
      parent,
      version: 0,
      position: 0,
      time: 0,
      latest: 0,
      link: FIRST_LINK,
      erased,
      tombstone: 0,
    };
    this.#cache(node);
    return node;
  }

  insert(node: ThreadNode, event: EventInput, packed: PackedBytes, placement: Placement): void {
    const { position, version, time, latest, link } = placement;
    const code = TYPE_CODES.indexOf(event.type as BuiltInType);
    this.#sql.insert.run(
      position,
      node.id,
      version,
      time,
      latest,
      code === -1 ? utf8.encode(event.type) : code,
      event.key === undefined ? null : keyBlob(event.key),
      event.id === undefined ? null : utf8.encode(event.id),
      event.schema === 1 ? null : event.schema,
      event.form === Form.whole ? null : event.form,
      event.base ?? null,
      packed.packing ?? null,
      link,
      event.meta ?? null,
      packed.value ?? null,
      packed.state ?? null,
    );
    this.#index.add({ position, thread: node.id, version, key: event.key, id: event.id });
    this.#head = { position, time };
    node.version = version;
    node.position = position;
    node.time = time;
    node.latest = latest;
    node.link = link;
  }

  /** Counts positions that another log has erased as erased here. */
  skip(positions: number): void {
    this.#sql.countErased.run(positions);
  }

  insertBase({ thread, position, origin }: Base): void {
    this.#sql.insertBase.run(thread, position, origin.thread, origin.position);
    this.#bases.delete(thread);
  }

  erase(node: ThreadNode, through: Version, tombstone: Position): void {
    this.#sql.erase.run(through, tombstone, node.id);
    this.#sql.setLastTombstone.run(tombstone);
    this.#sql.dropStates.run();
    this.#sql.setScrubDue.run(1);
    node.erased = through;
    node.tombstone = tombstone;
  }

  nextToPurge(): ThreadNode | undefined {
    const row = this.#sql.nextToPurge.get();
    return row && this.nodeById(integer(row, "id"));
  }

  requestPurge(node: ThreadNode): void {
    this.#sql.requestPurge.run(node.id);
  }

  purged(node: ThreadNode): void {
    this.#sql.purged.run(node.id);
  }

  remove(node: ThreadNode, low: Position, high: Position, limit: number): number {
    const positions = this.#index.remove(node.id, node.erased + 1, low, high, limit);
    for (const position of positions) this.#sql.removeEvent.run(position);
    this.#sql.removeBases.run(node.id, low, high);
    this.#bases.delete(node.id);
    this.#sql.countErased.run(positions.length);
    return positions.length;
  }

  /** Whether copies of what was erased may be left in the file. */
  get isScrubDue(): boolean {
    return integer(this.#sql.scrubDue.get(), "value") !== 0;
  }

  /** Notes that none are left. */
  scrubbed(): void {
    this.#sql.setScrubDue.run(0);
  }

  loadState(name: string): SavedState | undefined {
    const row = this.#sql.loadState.get(utf8.encode(name));
    return row && { version: integer(row, "version"), position: integer(row, "position"), state: bytes(row, "state")! };
  }

  saveState(name: string, { version, position, state }: SavedState): void {
    if (position < integer(this.#sql.lastTombstone.get(), "value")) return;
    this.#sql.saveState.run(utf8.encode(name), version, position, state);
  }

  counts(): Pick<BackendStats, "threads" | "events" | "erased" | "purging"> {
    const erased = integer(this.#sql.erased.get(), "value");
    const threads = (this.#sql.threadCount.get()!.n as number | null) ?? 0;
    const purging = this.#sql.nextToPurge.get() !== undefined;
    return { threads, events: this.head().position - erased, erased, purging };
  }

  /** An event that an index leads to. */
  #indexed(position: Position | undefined): PackedEvent | undefined {
    if (position === undefined) return undefined;
    const event = this.event(position);
    if (event === undefined) throw corrupt(`The event at position ${position} is missing`, `position ${position}`);
    return event;
  }

  #event(row: Row | undefined): PackedEvent | undefined {
    if (row === undefined) return undefined;
    const position = integer(row, "position");
    const { type } = row;
    const name = typeof type === "number" ? TYPE_CODES[type] : decodeName(row, "type");
    if (name === undefined) {
      throw corrupt(`The event at position ${position} has no known type`, `position ${position}`);
    }
    const key = bytes(row, "key");
    return {
      position,
      path: this.#pathOf(integer(row, "thread")),
      version: integer(row, "version"),
      time: integer(row, "time"),
      latest: integer(row, "latest"),
      type: name,
      key: key === undefined ? undefined : keyOf(key),
      id: row.id === null ? undefined : decodeName(row, "id"),
      schema: row.schema === null ? 1 : integer(row, "schema"),
      form: row.form === null ? Form.whole : integer(row, "form") as Form,
      base: row.base === null ? undefined : integer(row, "base"),
      link: bytes(row, "link")!,
      meta: bytes(row, "meta"),
      packed: {
        packing: row.packing === null ? undefined : integer(row, "packing"),
        value: bytes(row, "value"),
        state: bytes(row, "state"),
      },
    };
  }
}

function baseOf(row: Row): Base {
  return {
    thread: integer(row, "thread"),
    position: integer(row, "position"),
    origin: { thread: integer(row, "origin_thread"), position: integer(row, "origin_position") },
  };
}
