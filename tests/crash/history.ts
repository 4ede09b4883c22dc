/**
 * The one true history of a recorded run, from what the writer was told: which events there are, in which order, and
 * what every thread holds after each. It shares no code with the library.
 */
import type { Event } from "../../mod.ts";
import { counted, COUNTER, type Counter, type Plan, stepOf } from "./plan.ts";
import type { Action } from "./records.ts";

/** What a thread holds, by key. */
type Keys = ReadonlyMap<string, unknown>;

/** A moment: what all threads hold, and where the log ends. */
export interface Moment {
  readonly threads: ReadonlyMap<string, Keys>;
  /** For each thread that was erased, the last version that is gone. */
  readonly erased: ReadonlyMap<string, number>;
}

/** An event as text, with all that must be the same after a crash. */
export function lineOf({ position, thread, version, type, key, id, value }: Event): string {
  return JSON.stringify([position, thread, version, type, key ?? null, id, value ?? null]);
}

/** What the writer was told, by id: events that were appended together, and those it found. */
function* groupsOf(actions: readonly Action[]): Iterable<[string, readonly Event[]]> {
  for (const action of actions) {
    if (action.what !== "note") continue;
    const { note } = action;
    if (note.kind === "acknowledged" && note.events !== undefined && note.events.length > 0) {
      yield [note.id, note.events];
    } else if (note.kind === "found") {
      const byId = new Map<string, Event[]>();
      for (const event of note.events) byId.set(event.id, [...byId.get(event.id) ?? [], event]);
      yield* byId;
    }
  }
}

/** What a run wrote. */
export class History {
  readonly plan: Plan;
  readonly events: readonly Event[];
  readonly lines: readonly string[];
  /** By position - 1: the last position of what was appended together with it. */
  readonly #groupEnds: number[] = [];
  readonly #ends = new Map<string, number>();
  readonly #moments: Moment[] = [{ threads: new Map(), erased: new Map() }];
  readonly #versions = new Map<string, Keys[]>();

  constructor(plan: Plan, actions: readonly Action[]) {
    this.plan = plan;
    const events = new Map<number, Event>();
    for (const [id, group] of groupsOf(actions)) {
      const end = group.at(-1)!.position;
      this.#ends.set(id, end);
      for (const event of group) {
        events.set(event.position, event);
        this.#groupEnds[event.position - 1] = end;
      }
    }
    this.events = [...events.values()].sort((a, b) => a.position - b.position);
    this.events.forEach((event, i) => {
      if (event.position !== i + 1) throw new Error(`the writer was not told of position ${i + 1}`);
      this.#moments.push(this.#after(event, this.#moments[i]!));
    });
    this.lines = this.events.map(lineOf);
  }

  /** The last position of what an id stands for; 0 if that appended nothing. */
  endOf(id: string): number {
    return this.#ends.get(id) ?? 0;
  }

  /** Whether the log may end here: not within what was appended together. */
  isWhole(position: number): boolean {
    return position === 0 || this.#groupEnds[position - 1] === position;
  }

  /** What was appended together, from a position on. */
  groupAt(position: number): readonly Event[] {
    return this.events.slice(position - 1, this.#groupEnds[position - 1]);
  }

  /** What there is when the log ends at a position. */
  moment(position: number): Moment {
    return this.#moments[position]!;
  }

  /** The events that can be read when the log ends at a position. */
  visible(position: number): Event[] {
    const { erased } = this.moment(position);
    return this.events.slice(0, position).filter(({ thread, version }) => version > (erased.get(`${thread}`) ?? 0));
  }

  #after(event: Event, before: Moment): Moment {
    const thread = `${event.thread}`;
    const states: Keys[] = this.#versions.get(thread) ?? [new Map()];
    this.#versions.set(thread, states);
    const state = this.#state(event, new Map(states.at(-1)));
    const erased = event.type === "erase"
      ? new Map(before.erased).set(thread, (event.value as { through: number }).through)
      : before.erased;
    // A fork shares its parent's history: its own first event is its parent's version + 1.
    if (event.type === "fork") this.#versions.set(thread, [...this.#parentStates(event), state]);
    else states.push(state);
    return { threads: new Map(before.threads).set(thread, state), erased };
  }

  #state(event: Event, state: Map<string, unknown>): Keys {
    const step = stepOf(this.plan, event.id);
    switch (event.type) {
      case "set":
      case "patch":
        // The first update of a counter is a set.
        if (event.key === COUNTER) state.set(COUNTER, counted(state.get(COUNTER) as Counter | undefined, event.id));
        else if (step.kind === "put") state.set(step.key, step.value);
        return state;
      case "delete":
        state.delete(event.key as string);
        return state;
      case "erase":
        return new Map();
      case "fork":
        return this.#parentStates(event).at(-1)!;
      default:
        return state;
    }
  }

  #parentStates(event: Event): Keys[] {
    const { parent, version } = event.value as { parent: string; version: number };
    return this.#versions.get(parent)!.slice(0, version + 1);
  }
}
