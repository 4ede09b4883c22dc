/**
 * A reader of log files that was written from docs/format.md alone and imports nothing of the library. It prefers plain
 * code to fast code: it loads all rows, and unpacks each payload once.
 */
import { createHash } from "node:crypto";
import process from "node:process";
import { zstdDecompressSync } from "node:zlib";

const TYPES = ["set", "patch", "delete", "fork", "restore", "erase"];
const CODEC = "threadlog-msgpack/1";

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const utf8 = (bytes) => strictUtf8.decode(bytes);

/** Runs SELECTs on a file, whatever SQLite the runtime has. */
function querying(path, read) {
  if ("Bun" in globalThis) {
    const { Database } = process.getBuiltinModule("bun:sqlite");
    const database = new Database(path, { readonly: true });
    try {
      return read((sql) => {
        const statement = database.prepare(sql);
        try {
          return statement.all();
        } finally {
          statement.finalize();
        }
      });
    } finally {
      database.close();
    }
  }
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    return read((sql) => database.prepare(sql).all());
  } finally {
    database.close();
  }
}

/** Reads a log file. */
export function readLogFile(path) {
  return querying(path, (query) => {
    query("BEGIN");
    const [{ application_id: application }] = query("PRAGMA application_id");
    const [{ user_version: version }] = query("PRAGMA user_version");
    if (application !== 0x544c4f47) throw new Error("not a log");
    if (version > 1) throw new Error("a newer format");
    const meta = new Map(query("SELECT name, value FROM meta").map(({ name, value }) => [name, value]));
    return new LogFile(
      meta,
      query("SELECT * FROM threads ORDER BY path"),
      query("SELECT * FROM events ORDER BY position"),
      query("SELECT * FROM bases ORDER BY position"),
    );
  });
}

/** A log, as it is in its file. Its events and entries look as the API's do; a thread goes by its number. */
export class LogFile {
  #rows = new Map();
  #threads = new Map();
  #bases;
  #payloads = new Map();
  #values = new Map();

  constructor(meta, threads, events, bases) {
    this.meta = meta;
    this.#bases = bases;
    for (const row of threads) this.#threads.set(row.id, { ...row, own: new Map(), last: 0 });
    for (const row of events) {
      this.#rows.set(row.position, row);
      const thread = this.#threads.get(row.thread);
      thread.own.set(row.version, row);
      thread.last = Math.max(thread.last, row.version);
    }
    const codec = meta.get("codec");
    this.decode = codec === CODEC ? decode : () => {
      throw new Error(`the codec is ${codec}`);
    };
  }

  // ---- names

  /** The threads, in the order of their paths. */
  threads() {
    return [...this.#threads.values()].map(({ id, path, erased, last }) => ({
      number: id,
      id: idOf(path),
      erased,
      last,
    }));
  }

  #typeOf({ type }) {
    if (typeof type !== "number") return utf8(type);
    if (TYPES[type] === undefined) throw new Error(`no type ${type}`);
    return TYPES[type];
  }

  #keyOf({ key }) {
    return key === null ? undefined : utf8(key.subarray(0, -1));
  }

  // ---- events

  /** How many rows there are, those included that do not count any more. */
  get rowCount() {
    return this.#rows.size;
  }

  /** The row of a version of a thread: its own, or inherited. */
  #rowOf(number, version) {
    let thread = this.#threads.get(number);
    while (thread.parent !== null && version <= thread.parent_version) thread = this.#threads.get(thread.parent);
    const row = thread.own.get(version);
    if (row === undefined) throw new Error(`thread ${number} has no version ${version}`);
    return row;
  }

  #historyOf(number) {
    const { erased, last } = this.#threads.get(number);
    const rows = [];
    for (let version = erased + 1; version <= last; version++) rows.push(this.#rowOf(number, version));
    return rows;
  }

  #event(row) {
    const key = this.#keyOf(row);
    return {
      position: row.position,
      thread: idOf(this.#threads.get(row.thread).path),
      version: row.version,
      time: row.time,
      id: row.id === null ? `@${row.position}` : utf8(row.id),
      meta: row.meta === null ? undefined : this.decode(row.meta),
      type: this.#typeOf(row),
      ...(key === undefined ? {} : { key }),
      value: row.value === null ? undefined : this.decode(row.form === null ? this.#payload(row) : row.value),
    };
  }

  /** All events, in the order of their positions. */
  events() {
    const rows = new Set();
    for (const number of this.#threads.keys()) for (const row of this.#historyOf(number)) rows.add(row);
    return [...rows].sort((a, b) => a.position - b.position).map((row) => this.#event(row));
  }

  /** The events of a thread's history. */
  history(number) {
    return this.#historyOf(number).map((row) => this.#event(row));
  }

  // ---- states

  /** The state of a thread at a version, as a fold over its history: entries in the order of their keys. */
  stateByFold(number, version = this.#threads.get(number).last) {
    const states = new Map([[0, new Map()]]);
    let state = new Map();
    for (const row of this.#historyOf(number)) {
      if (row.version > version) break;
      const type = this.#typeOf(row);
      if (type === "set" || type === "patch") state = new Map(state).set(this.#keyOf(row), row);
      else if (type === "restore") state = states.get(this.decode(this.#payload(row)).version);
      else if (type === "delete") {
        state = new Map(state);
        state.delete(this.#keyOf(row));
      }
      states.set(row.version, state);
    }
    return this.#entries(state);
  }

  /** The same, looked up key by key. */
  stateByBases(number, version = this.#threads.get(number).last) {
    const { thread, position } = this.#rowOf(number, version);
    const keys = new Set([...this.#rows.values()].filter(({ key }) => key !== null).map((row) => this.#keyOf(row)));
    const state = new Map();
    for (const key of keys) {
      const row = this.#lookUp(thread, position, key);
      if (row !== undefined && this.#typeOf(row) !== "delete") state.set(key, row);
    }
    return this.#entries(state);
  }

  #lookUp(thread, position, key) {
    while (thread !== 0) {
      const base = this.#bases.findLast((row) => row.thread === thread && row.position <= position);
      const low = base?.position ?? 0;
      let newest;
      for (const row of this.#threads.get(thread).own.values()) {
        if (row.position <= low || row.position > position || this.#keyOf(row) !== key) continue;
        if (newest === undefined || newest.position < row.position) newest = row;
      }
      if (newest !== undefined || base === undefined) return newest;
      thread = base.origin_thread;
      position = base.origin_position;
    }
    return undefined;
  }

  /** The newest entry at a version; undefined if there is none. */
  latest(number, version = this.#threads.get(number).last) {
    const { latest } = this.#rowOf(number, version);
    return latest === 0 ? undefined : this.#entry(this.#rows.get(latest));
  }

  #entries(state) {
    const entries = Array.from(state.values(), (row) => [row.key, this.#entry(row)]);
    return entries.sort(([a], [b]) => compareBytes(a, b)).map(([, entry]) => entry);
  }

  #entry(row) {
    const { key, version, position, time, id, meta } = this.#event(row);
    return { key, value: this.#value(row), version, position, time, id, meta };
  }

  // ---- values

  /** The unpacked payload of a row; undefined if it has none. */
  #payload(row) {
    // In a loop: deltas may follow one another.
    const chain = [];
    let bytes;
    for (let at = row; bytes === undefined;) {
      bytes = this.#payloads.get(at.position);
      if (bytes !== undefined) break;
      const { packing } = at;
      const kept = at.form === null ? at.value : at.state;
      if (kept === null) {
        if (chain.length === 0) return undefined;
        throw new Error("a delta on nothing");
      }
      const stored = packing === null || packing > 0 ? kept : new Uint8Array(zstdDecompressSync(kept));
      if (packing === null || packing === 0) bytes = stored;
      else {
        if (Math.abs(packing) >= at.position) throw new Error("a delta on what comes later");
        chain.push([at.position, stored]);
        at = this.#rows.get(Math.abs(packing));
      }
    }
    for (const [position, delta] of chain.reverse()) {
      bytes = applyDelta(bytes, delta);
      this.#payloads.set(position, bytes);
    }
    return bytes;
  }

  /** The value that a set or patch left. */
  #value(row) {
    const chain = [];
    let value;
    for (let at = row;;) {
      if (this.#values.has(at.position)) {
        value = this.#values.get(at.position);
        break;
      }
      const payload = this.#payload(at);
      if (payload !== undefined) {
        value = this.decode(payload);
        break;
      }
      chain.push(at);
      at = this.#rows.get(at.base);
    }
    for (const { value: operations } of chain.reverse()) value = patched(value, this.decode(operations));
    this.#values.set(row.position, value);
    return value;
  }

  // ---- the hash chain

  /** What does not fit, a sentence each. */
  verify() {
    const faults = [];
    const positions = new Set();
    for (const thread of this.#threads.values()) {
      const history = this.#historyOf(thread.id);
      let before = new Uint8Array(32);
      for (const [index, row] of history.entries()) {
        const type = this.#typeOf(row);
        if (index === 0 && row.version > 1 && type !== "erase") faults.push(`${row.position} is no beginning`);
        if (type === "erase") before = new Uint8Array(32);
        const place = new DataView(new ArrayBuffer(24));
        [row.position, row.version, row.time].forEach((number, i) => place.setBigInt64(8 * i, BigInt(number)));
        const link = sha256(before, this.#digest(row), new Uint8Array(place.buffer));
        if (compareBytes(link, row.link) !== 0) faults.push(`the link of ${row.position} does not fit`);
        before = row.link;
        positions.add(row.position);
      }
      faults.push(...this.#uncovered(thread, history));
    }
    let last = 0;
    for (const position of positions) last = Math.max(last, position);
    if (this.#rows.size + this.meta.get("erased") !== last) faults.push("events are missing");
    return faults;
  }

  #digest(row) {
    const { path } = this.#threads.get(row.thread);
    const names = [path, bytesOf(this.#typeOf(row)), row.key === null ? null : bytesOf(this.#keyOf(row)), row.id];
    const payload = this.#payload(row) ?? null;
    const blobs = row.form === null ? [payload, row.state, row.meta] : [row.value, payload, row.meta];
    const header = new DataView(new ArrayBuffer(44));
    [...names, ...blobs].forEach((part, i) => header.setUint32(4 * i, part?.length ?? 0xffffffff));
    header.setUint32(28, row.schema ?? 1);
    header.setUint32(32, row.form ?? 0);
    header.setBigInt64(36, BigInt(row.base ?? 0));
    return sha256(new Uint8Array(header.buffer), ...[...names, ...blobs].filter((part) => part !== null));
  }

  /** What the chain does not cover, held against what it does. */
  *#uncovered(thread, history) {
    const at = (version) => version === 0 ? undefined : this.#rowOf(thread.id, version);
    const inHistory = new Set(history.map(({ position }) => position));
    for (const [index, row] of history.entries()) {
      const type = this.#typeOf(row);
      const { position, packing } = row;
      if (packing !== null && packing !== 0 && !inHistory.has(Math.abs(packing))) {
        yield `the delta of ${position} builds on another history`;
      }
      const base = this.#bases.find((base) => base.thread === row.thread && base.position === position);
      if ((base !== undefined) !== ["fork", "restore", "erase"].includes(type)) yield `${position} has a wrong base`;
      if (base === undefined) continue;
      const value = this.decode(this.#payload(row));
      if (type === "fork" && value.version !== row.version - 1) yield `the fork ${position} is misplaced`;
      if (type === "erase" && (value.through !== row.version - 1 || index !== 0)) yield `${position} erases otherwise`;
      const origin = type === "erase" ? undefined : at(value.version);
      if (base.origin_thread !== (origin?.thread ?? 0) || base.origin_position !== (origin?.position ?? 0)) {
        yield `the base of ${position} is not what its value says`;
      }
    }
    const own = [...thread.own.values()].filter(({ position }) => inHistory.has(position));
    const tombstone = own.find((row) => this.#typeOf(row) === "erase");
    if (thread.tombstone !== (tombstone?.position ?? 0)) yield `thread ${thread.id} has another tombstone`;
    if (own.length === 0 || own.at(-1) !== history.at(-1)) yield `thread ${thread.id} has no last event of its own`;
    if (thread.created > own[0].position) yield `thread ${thread.id} was created later`;
  }
}

function idOf(path) {
  const labels = utf8(path).split("\0").slice(0, -1);
  // deno-lint-ignore no-control-regex
  const plain = labels.map((label) => label.replace(/\x01[\x01\x02]/g, (pair) => pair[1] === "\x01" ? "\0" : "\x01"));
  return plain.length === 1 ? plain[0] : plain;
}

function bytesOf(text) {
  return new TextEncoder().encode(text);
}

function compareBytes(a, b) {
  for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
}

function sha256(...parts) {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return new Uint8Array(hash.digest());
}

/** What a delta makes of its base. */
export function applyDelta(base, delta) {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let scale = 1;; scale *= 128) {
      const byte = delta[at++];
      if (byte === undefined) throw new Error("a delta ends too soon");
      value += (byte % 128) * scale;
      if (byte < 128) return value;
    }
  };
  const result = new Uint8Array(varint());
  let written = 0;
  let copied = 0;
  while (at < delta.length) {
    const head = varint();
    const length = Math.floor(head / 2);
    if (head % 2 === 0) {
      result.set(delta.subarray(at, at + length), written);
      at += length;
    } else {
      const z = varint();
      copied += z % 2 === 0 ? z / 2 : -(z + 1) / 2;
      result.set(base.subarray(copied, copied + length), written);
      copied += length;
    }
    written += length;
  }
  if (written !== result.length || at !== delta.length) throw new Error("a delta does not fit");
  return result;
}

// ---- operations

/** The value after RFC 6902 operations; the one before is left as it is. */
function patched(value, operations) {
  for (const operation of operations) {
    const segments = operation.path.split("/").slice(1).map((one) => one.replaceAll("~1", "/").replaceAll("~0", "~"));
    value = changed(value, segments, operation);
  }
  return value;
}

function changed(value, [segment, ...others], { op, path, value: operand }) {
  if (segment === undefined) return op === "remove" ? undefined : operand;
  const isList = Array.isArray(value);
  const isObject = !isList && value !== null && typeof value === "object" &&
    Object.getPrototypeOf(value) === Object.prototype;
  if (!isList && !isObject) throw new Error(`${path} leads into a value without children`);
  const index = isList && segment === "-" ? value.length : segment;
  const exists = Object.hasOwn(value, index) && (!isList || /^\d+$/.test(index));
  if (others.length > 0 || op !== "add") {
    if (!exists) throw new Error(`${path} leads nowhere`);
  } else if (isList && !(exists || Number(index) === value.length)) throw new Error(`${path} leads nowhere`);
  const copy = isList ? [...value] : Object.defineProperties({}, Object.getOwnPropertyDescriptors(value));
  if (others.length > 0) define(copy, index, changed(copy[index], others, { op, path, value: operand }));
  else if (isList && op !== "replace") {
    copy.splice(Number(index), op === "add" ? 0 : 1, ...op === "add" ? [operand] : []);
  } else if (op === "remove") delete copy[index];
  else define(copy, index, operand);
  return copy;
}

function define(object, key, value, enumerable = true) {
  Object.defineProperty(object, key, { value, enumerable, writable: true, configurable: true });
}

// ---- MessagePack

const BUFFERS = [
  ArrayBuffer,
  DataView,
  Int8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
];
const ERRORS = { Error, AggregateError, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

/** The value that bytes of the codec stand for. */
export function decode(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;

  const take = (size) => {
    if (at + size > bytes.length) throw new Error("the bytes end too soon");
    at += size;
    return at - size;
  };
  const uint = [() => view.getUint8(take(1)), () => view.getUint16(take(2)), () => view.getUint32(take(4))];
  const copy = (size) => new Uint8Array(bytes.subarray(take(size), at));
  const string = (size) => utf8(bytes.subarray(take(size), at));
  const array = (size) => Array.from({ length: size }, read);
  const object = (size) => {
    const result = {};
    for (let i = 0; i < size; i++) define(result, read(), read());
    return result;
  };
  const until = (end, part) => {
    const parts = [];
    while (at < end) parts.push(part());
    return parts;
  };

  function extension(size) {
    const type = view.getInt8(take(1));
    const end = at + size;
    const value = content(type, size, end);
    if (at !== end) throw new Error("an extension does not fit its data");
    return value;
  }

  function content(type, size, end) {
    switch (type) {
      case -1: {
        if (size === 4) return new Date(uint[2]() * 1000);
        if (size === 8) {
          const both = view.getBigUint64(take(8));
          return new Date(Number(both & 0x3_ffff_ffffn) * 1000 + Number(both >> 34n) / 1e6);
        }
        const nanoseconds = uint[2]();
        return new Date(Number(view.getBigInt64(take(8))) * 1000 + nanoseconds / 1e6);
      }
      case 1:
        return undefined;
      case 2:
        return new Map(until(end, () => [read(), read()]));
      case 3:
        return new Set(until(end, read));
      case 4: {
        const isNegative = uint[0]() === 1;
        const digits = Array.from(copy(size - 1), (byte) => byte.toString(16).padStart(2, "0"));
        const magnitude = BigInt(`0x${digits.join("")}`);
        return isNegative ? -magnitude : magnitude;
      }
      case 5: {
        const Kind = BUFFERS[uint[0]()];
        const { buffer } = copy(size - 1);
        return Kind === ArrayBuffer ? buffer : new Kind(buffer);
      }
      case 6:
        return new RegExp(read(), read());
      case 7: {
        const Type = ERRORS[read()];
        const error = Type === AggregateError ? new Type([]) : new Type();
        for (const field of ["message", "stack", "cause", "errors"]) delete error[field];
        for (const isShown of [false, true]) {
          for (const [key, value] of Object.entries(read())) define(error, key, value, isShown);
        }
        return error;
      }
      default:
        throw new Error(`no extension ${type}`);
    }
  }

  function read() {
    const byte = uint[0]();
    if (byte < 0x80) return byte;
    if (byte < 0x90) return object(byte - 0x80);
    if (byte < 0xa0) return array(byte - 0x90);
    if (byte < 0xc0) return string(byte - 0xa0);
    if (byte >= 0xe0) return byte - 0x100;
    if (byte >= 0xc4 && byte <= 0xc6) return copy(uint[byte - 0xc4]());
    if (byte >= 0xc7 && byte <= 0xc9) return extension(uint[byte - 0xc7]());
    if (byte >= 0xcc && byte <= 0xce) return uint[byte - 0xcc]();
    if (byte >= 0xd4 && byte <= 0xd8) return extension(2 ** (byte - 0xd4));
    if (byte >= 0xd9 && byte <= 0xdb) return string(uint[byte - 0xd9]());
    switch (byte) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xca:
        return view.getFloat32(take(4));
      case 0xcb:
        return view.getFloat64(take(8));
      case 0xcf:
        return view.getBigUint64(take(8));
      case 0xd0:
        return view.getInt8(take(1));
      case 0xd1:
        return view.getInt16(take(2));
      case 0xd2:
        return view.getInt32(take(4));
      case 0xd3:
        return view.getBigInt64(take(8));
      case 0xdc:
        return array(uint[1]());
      case 0xdd:
        return array(uint[2]());
      case 0xde:
        return object(uint[1]());
      case 0xdf:
        return object(uint[2]());
      default:
        throw new Error(`no form ${byte}`);
    }
  }

  const value = read();
  if (at !== bytes.length) throw new Error("bytes are left over");
  return value;
}
