/**
 * The demo's story: Juno, an agent, gets Ada and her cello from Vienna to Copenhagen by train. Each step is one event.
 *
 * @module
 */

import type { Event, Thread } from "../mod.ts";

/** Something said. */
export interface Message {
  role: "user" | "assistant";
  text: string;
}

/** One train or ferry. */
export interface Leg {
  by: string;
  from: string;
  to: string;
  leaves: string;
}

/** The trip as it is planned. */
export interface Plan {
  status: "held" | "replanned" | "booked";
  seats: number;
  legs: Leg[];
  hotel?: string;
  arrives: string;
  euros: number;
}

/** What the thread remembers: its keys, and the types of their values. */
export interface Trip {
  messages: Message[];
  plan: Plan;
}

/** One step of the story. Its id makes it safe to take twice. */
export type Step =
  & { readonly id: string }
  & (
    | { readonly kind: "say"; readonly by: "Ada" | "Juno"; readonly text: string }
    | { readonly kind: "call"; readonly tool: string; readonly args: Record<string, unknown> }
    | { readonly kind: "return"; readonly tool: string; readonly result: Record<string, unknown> }
    | { readonly kind: "plan"; readonly plan: Plan }
    | { readonly kind: "revise"; readonly why: string; readonly recipe: (draft: Plan) => void }
  );

/** Takes a step: appends it to the thread. Resolves when the event can no longer be lost. */
export async function take(thread: Thread<Trip>, step: Step): Promise<Event> {
  const { id } = step;
  switch (step.kind) {
    case "say": {
      const message: Message = { role: step.by === "Ada" ? "user" : "assistant", text: step.text };
      return await thread.update("messages", (draft) => {
        draft.push(message);
      }, { id, initial: [], meta: { by: step.by } });
    }
    case "call":
      return await thread.append("tool.called", { tool: step.tool, args: step.args }, { id, meta: { by: "Juno" } });
    case "return":
      return await thread.append("tool.returned", { tool: step.tool, result: step.result }, { id });
    case "plan":
      return await thread.put("plan", step.plan, { id, meta: { by: "Juno", why: "first plan" } });
    case "revise":
      return await thread.update("plan", step.recipe, { id, meta: { by: "Juno", why: step.why } });
    default:
      return step satisfies never;
  }
}

/** What a step does, in a few words. */
export function describe(step: Step): string {
  switch (step.kind) {
    case "say":
      return `${step.by}: ${step.text}`;
    case "call":
      return `${step.tool}(${facts(step.args)})`;
    case "return":
      return `${step.tool} -> ${facts(step.result)}`;
    case "plan":
      return `${route(step.plan)}, ${step.plan.euros} euros`;
    case "revise":
      return step.why;
    default:
      return step satisfies never;
  }
}

/** The places of a plan. */
export function route(plan: { readonly legs: readonly { readonly from: string; readonly to: string }[] }): string {
  return [plan.legs[0]?.from, ...plan.legs.map((leg) => leg.to)].join(" > ");
}

function facts(record: Record<string, unknown>): string {
  return Object.entries(record).map(([name, value]) => `${name}: ${short(value)}`).join(", ");
}

function short(value: unknown): string {
  return Array.isArray(value) ? value.join(" | ") : String(value);
}

/** The steps as they happened. */
export const STORY: readonly Step[] = [
  {
    id: "ask",
    kind: "say",
    by: "Ada",
    text: "I play in Copenhagen on Saturday at 19:00. By train from Vienna, please. The cello needs a seat.",
  },
  {
    id: "search",
    kind: "call",
    tool: "search_trains",
    args: { from: "Vienna", to: "Copenhagen", by: "Sat 17:00", seats: 2 },
  },
  {
    id: "found",
    kind: "return",
    tool: "search_trains",
    result: { options: ["night train NJ 490 via Hamburg, 178 euros"] },
  },
  {
    id: "plan",
    kind: "plan",
    plan: {
      status: "held",
      seats: 2,
      legs: [
        { by: "NJ 490", from: "Vienna", to: "Hamburg", leaves: "Fri 20:10" },
        { by: "IC 395", from: "Hamburg", to: "Copenhagen", leaves: "Sat 09:54" },
      ],
      arrives: "Sat 14:40",
      euros: 178,
    },
  },
  { id: "hold", kind: "call", tool: "hold_seats", args: { train: "NJ 490", seats: 2, next_to_each_other: true } },
  { id: "held", kind: "return", tool: "hold_seats", result: { held: true, until: "Thu 18:00" } },
  {
    id: "offer",
    kind: "say",
    by: "Juno",
    text: "The night train has two seats side by side, one for the cello. There at 14:40. Shall I book?",
  },
  { id: "yes", kind: "say", by: "Ada", text: "Yes! It likes the window." },
  { id: "book", kind: "call", tool: "book", args: { trains: ["NJ 490", "IC 395"], seats: 2 } },
  { id: "refused", kind: "return", tool: "book", result: { booked: false, reason: "NJ 490 is cancelled on Friday" } },
  {
    id: "search-again",
    kind: "call",
    tool: "search_trains",
    args: { from: "Vienna", to: "Copenhagen", avoid: "NJ 490" },
  },
  {
    id: "found-again",
    kind: "return",
    tool: "search_trains",
    result: { options: ["day trains, a night in Berlin", "ferry from Rostock"] },
  },
  {
    id: "replan",
    kind: "revise",
    why: "NJ 490 is cancelled: day trains instead, and a night in Berlin",
    recipe: (draft) => {
      draft.status = "replanned";
      draft.legs[0] = { by: "EC 172", from: "Vienna", to: "Berlin", leaves: "Fri 08:10" };
      draft.legs[1] = { by: "EC 378", from: "Berlin", to: "Copenhagen", leaves: "Sat 06:58" };
      draft.hotel = "Hotel Adagio, Berlin";
      draft.arrives = "Sat 14:05";
      draft.euros = 264;
    },
  },
  {
    id: "offer-again",
    kind: "say",
    by: "Juno",
    text: "Your night train is cancelled. I suggest day trains with a night in Berlin. There on Saturday at 14:05.",
  },
  { id: "yes-again", kind: "say", by: "Ada", text: "If the hotel has a lift. It is a large cello." },
  { id: "booked", kind: "revise", why: "booked", recipe: (draft) => void (draft.status = "booked") },
];

/** How the story goes on in the fork, from the step "found-again". */
export const OTHERWISE: readonly Step[] = [
  {
    id: "replan-ferry",
    kind: "revise",
    why: "NJ 490 is cancelled: by Berlin to Rostock, and the night on the ferry",
    recipe: (draft) => {
      draft.status = "replanned";
      draft.legs = [
        { by: "EC 172", from: "Vienna", to: "Berlin", leaves: "Fri 08:10" },
        { by: "RE 5", from: "Berlin", to: "Rostock", leaves: "Fri 17:26" },
        { by: "ferry", from: "Rostock", to: "Copenhagen", leaves: "Fri 23:00" },
      ];
      draft.arrives = "Sat 08:30";
      draft.euros = 196;
    },
  },
  {
    id: "offer-ferry",
    kind: "say",
    by: "Juno",
    text: "Your night train is cancelled. There is a ferry from Rostock: you wake up at sea and arrive at 08:30.",
  },
  { id: "yes-ferry", kind: "say", by: "Ada", text: "At sea! We will practise on deck." },
  { id: "booked", kind: "revise", why: "booked", recipe: (draft) => void (draft.status = "booked") },
];

/** The thread of the story: a path of two labels. */
export const TRIP = ["trips", "ada"] as const;

/** The fork's thread. */
export const BY_FERRY = ["trips", "ada", "by-ferry"] as const;
