/**
 * Updates: a recipe runs on the value as it is when its turn comes, and is appended as a patch.
 *
 * @module
 */

import type { AppendRequest, EventInput, Expectation, StoredEvent } from "./backend.ts";
import type { Core } from "./core.ts";
import { ConflictError, ThreadlogError } from "./errors.ts";
import { freeze } from "./freeze.ts";
import { showPath, type ThreadPath } from "./ids.ts";
import { diff } from "./json_patch.ts";
import { loadRecipes, type Recipe, runRecipe } from "./recipe.ts";
import type { StoredValue } from "./value.ts";

/** An update that waits for its turn. */
export interface PendingUpdate {
  readonly path: ThreadPath;
  readonly key: string;
  readonly recipe: Recipe<unknown>;
  /** What the recipe starts from where the key is not there. */
  readonly initial: { readonly value: unknown } | undefined;
  readonly id: string | undefined;
  readonly meta: unknown;
}

/** One step of a request: an event that is encoded already, or an update. */
export type Step = EventInput | PendingUpdate;

/** No thread ever has it. */
const NO_VERSION = -1;

/** What a step of the same request has left under a key. */
interface Left {
  readonly value: unknown;
  readonly exists: boolean;
}

/**
 * Makes a request of steps, running each recipe on what the steps before it leave. The request holds only as long as
 * none of the updated threads grows: it expects the heads that it was made from.
 */
export async function planSteps(
  core: Core,
  steps: readonly Step[],
  expects: readonly Expectation[],
): Promise<AppendRequest> {
  const retry = await planRetry(core, steps);
  if (retry !== undefined) return retry;
  await loadRecipes();
  const root = core.keyspace.root;
  const guards = new Map<ThreadPath, number>();
  for (const step of steps) {
    if ("recipe" in step) guards.set(step.path, (await core.keyspace.head(root, step.path)).version);
  }
  for (const { path, version } of expects) {
    const actual = guards.get(path);
    if (actual !== undefined && actual !== version) throw new ConflictError(showPath(path), version, actual);
    guards.set(path, version);
  }
  const left = new Map<string, Left>();
  const events: EventInput[] = [];
  for (const step of steps) {
    // Not the path and the key alone: a key may hold what ends a label.
    const place = `${step.path.length} ${step.path}${step.key}`;
    if (!("recipe" in step)) {
      events.push(step);
      if (step.key !== undefined) {
        const exists = step.type !== "delete";
        left.set(place, { exists, value: exists ? core.records.valueOf(step) : undefined });
      }
      continue;
    }
    const earlier = left.get(place);
    const stored = earlier === undefined ? await core.keyspace.value(root, step.path, step.key) : undefined;
    const { event, after } = planUpdate(core, step, stored, earlier);
    events.push(event);
    left.set(place, { exists: true, value: after });
  }
  return { events, expects: [...guards].map(([path, version]) => ({ path, version })) };
}

/** Steps whose ids are taken stand for what they made the first time, whatever they would make of today's state. */
async function planRetry(core: Core, steps: readonly Step[]): Promise<AppendRequest | undefined> {
  for (const [index, { path, id }] of steps.entries()) {
    const found = id === undefined ? undefined : await core.backend.byId(path, id);
    if (found === undefined) continue;
    const after = found.position - index - 1;
    const earlier = await core.backend.read({ after, to: after + steps.length, limit: steps.length });
    const at = new Map(earlier.map((event) => [event.position, event]));
    const events = steps.map((step, i) => "recipe" in step ? sameAgain(core, step, at.get(after + 1 + i)) : step);
    // To be found, never to be appended: should they be erased before that, the steps are planned anew.
    return { events, expects: [{ path, version: NO_VERSION }] };
  }
  return undefined;
}

/** The event that an update made before, if that is what it was. */
function sameAgain(core: Core, { path, key, id, meta, initial }: PendingUpdate, earlier: StoredEvent | undefined) {
  const type = initial !== undefined && earlier?.type === "set" ? "set" : "patch";
  const input = core.records.input({ path, type, key, id, meta, value: [] });
  return { ...input, value: earlier?.value ?? input.value, schema: earlier?.schema ?? input.schema };
}

function planUpdate(
  core: Core,
  step: PendingUpdate,
  stored: StoredValue | undefined,
  earlier: Left | undefined,
): { event: EventInput; after: unknown } {
  const { path, key, recipe, initial, id, meta } = step;
  const found = stored !== undefined || earlier?.exists === true;
  if (!found && initial === undefined) {
    throw new ThreadlogError("not_found", `There is no key ${JSON.stringify(key)} to update`, {
      place: `thread ${showPath(path)}`,
      remedy: "Put it first, or pass { initial }.",
    });
  }
  // Where a value can't be frozen, a recipe that changes it in place changes a copy.
  const own = (value: unknown) => freeze(value) ? value : core.records.copy(value, { path, key });
  const before = () => stored !== undefined ? stored.read() : own(found ? earlier!.value : initial!.value);
  const after = runRecipe(before(), recipe);
  // A value that the log does not hold yet, or only in this same request, can't be patched: it is stored whole.
  const base = stored ?? undefined;
  if (!found) {
    const event = core.records.input({ path, type: "set", key, id, meta, value: after });
    return { event, after: core.records.valueOf(event) };
  }
  const event = core.records.patch({ path, key, id, meta }, base, diff(before(), after), after);
  return { event, after: base === undefined ? core.records.copy(after, { path }) : after };
}
