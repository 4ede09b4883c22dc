/**
 * Threadlog: the state log under an agent.
 *
 * Everything that an agent remembers is appended, event by event, to one log; the current state is a projection of it.
 * So any thread can be replayed, compared and forked at any point, and nothing acknowledged is lost.
 *
 * @example
 * ```ts
 * import { openLog } from "threadlog";
 *
 * await using log = await openLog(":memory:"); // or "agent.db"
 * const thread = log.thread("support-42");
 * await thread.put("plan", { step: 1, todo: ["look up the order"] });
 * await thread.update("plan", (draft) => { draft.step = 2; });
 * const then = await thread.at(1).get("plan"); // { step: 1, ... }
 * const whatIf = await thread.fork("support-42/b", { at: 1 });
 * ```
 *
 * @module
 */

export { openLog } from "./log/open.ts";
export type { OpenOptions } from "./log/open.ts";
export { Log } from "./log/log.ts";
export type { LogStats, Projection } from "./log/log.ts";
export { Thread } from "./log/thread.ts";
export type { EraseOptions, ForkOptions, ReplayOptions } from "./log/thread.ts";
export type { UpdateOptions, WriteOptions } from "./log/writes.ts";
export { LogView, Snapshot, ThreadView } from "./log/view.ts";
export type { AnyState, Entry, EntryOf, KeyOf, ListOptions, ThreadInfo, ThreadsOptions } from "./log/view.ts";
export type { Batch, BatchThread } from "./log/batch.ts";
export type { Change } from "./log/changes.ts";
export { applyChanges } from "./log/changes.ts";
export { apply, diff } from "./log/json_patch.ts";
export { isBuiltIn } from "./log/event.ts";
export type {
  AppEvent,
  BuiltInEvent,
  BuiltInType,
  DeleteEvent,
  EraseEvent,
  Event,
  EventHeader,
  ForkEvent,
  Immutable,
  Operation,
  PatchEvent,
  RestoreEvent,
  SetEvent,
} from "./log/event.ts";
export type { ThreadId } from "./log/ids.ts";
export type { Head, LogPoint, Position, ThreadPoint, Version } from "./log/position.ts";
export type { ReadOptions, SubscribeOptions } from "./log/subscription.ts";
export { defineProjection } from "./projections/projection.ts";
export type { ProjectionDefinition } from "./projections/projection.ts";
export type { Upcaster } from "./log/upcaster.ts";
export type { Codec } from "./log/codec.ts";
export { msgpack } from "./log/msgpack.ts";
export type { Fault, VerifyReport } from "./log/verify.ts";
export { copyLog, type CopyLogOptions, type CopyLogProgress, type CopyLogReport } from "./log/copy_log.ts";
export { salvage } from "./log/salvage.ts";
export type { SalvageOptions, SalvageReport } from "./log/salvage.ts";
export type { BackendStats } from "./log/backend.ts";
export { ConflictError, OutcomeUnknownError, ThreadlogError } from "./log/errors.ts";
export type { ErrorCode, ErrorDetails } from "./log/errors.ts";
