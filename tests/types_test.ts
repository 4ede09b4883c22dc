/**
 * What the types allow and what they refuse. `npm run check` is the test: it checks this file as Deno, Bun and Node see
 * it, and a `@ts-expect-error` above a line that is fine is an error. What runs here shows that it works, too.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { type AppEvent, type Change, defineProjection, type Event, type Immutable, openLog } from "../mod.ts";

interface Message {
  role: "user" | "assistant";
  content: string;
  parts?: { text: string; at: Date }[];
}

interface State {
  messages: Message[];
  plan: { step: number; todo: string[]; byName: Map<string, { done: boolean }>; tags: Set<string> };
  note: string | undefined;
  count: number;
}

/** Compiles only where both are the same type. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;
function same<A, B>(..._: Same<A, B> extends true ? [] : ["these types differ"]): void {}

const hello: Message = { role: "user", content: "hello" };
const plan: State["plan"] = { step: 1, todo: [], byName: new Map([["a", { done: false }]]), tags: new Set(["x"]) };

it("what is read can be written back, alone or as part of something new", async () => {
  await using log = await openLog(":memory:");
  const thread = log.thread<State>("a");
  await thread.put("messages", [hello]);
  await thread.put("plan", plan);

  const messages = (await thread.get("messages"))!;
  same<typeof messages, Immutable<Message[]>>();
  await thread.put("messages", messages);
  await thread.put("messages", [...messages, hello]);
  await thread.put("messages", [...messages, { ...messages[0]!, content: "again" }]);
  await thread.put("messages", messages.filter(({ role }) => role === "user"));
  await thread.put("messages", structuredClone(messages));

  const read = (await thread.get("plan"))!;
  await thread.put("plan", read);
  await thread.put("plan", { ...read, step: 2 });
  await thread.put("plan", { ...read, todo: [...read.todo, "more"] });
  await thread.update("plan", () => read);
  await thread.update("plan", (draft) => ({ ...draft, byName: read.byName }));
  await thread.update("messages", (draft) => [...draft, ...messages]);
  await thread.update("messages", (draft) => void draft.push(hello), { initial: messages });
  await thread.update("count", (count) => count + 1, { initial: 0 });

  const entry = (await thread.entry("messages"))!;
  await thread.put(entry.key, entry.value);
  const copy = log.thread<State>("b");
  for await (const { key, value } of thread.entries()) await copy.put(key, value);

  await log.batch((batch) => {
    const inBatch = batch.thread<State>("a");
    inBatch.put("messages", [...messages, hello]);
    inBatch.put("plan", { ...read, step: 3 });
    inBatch.update("plan", () => read, { initial: read });
    inBatch.update("messages", (draft) => void draft.push(hello), { initial: messages });
  });
  assert.deepEqual(await thread.get("plan"), plan);
  assert.deepEqual(await copy.get("plan"), plan);
});

it("what does not fit is refused by the compiler", () => {
  const never = async () => {
    await using log = await openLog(":memory:");
    const thread = log.thread<State>("a");
    // @ts-expect-error: no such key
    await thread.put("plans", plan);
    // @ts-expect-error: not its type
    await thread.put("count", "1");
    // @ts-expect-error: not its type, in part
    await thread.put("messages", [{ role: "nobody", content: "" }]);
    // @ts-expect-error: not its type
    await thread.update("count", () => "1");
    // @ts-expect-error: a recipe is synchronous
    await thread.update("count", async (count) => await Promise.resolve(count));
    // @ts-expect-error: misspelt
    await thread.put("count", 1, { expects: 1 });
    // @ts-expect-error: what is read is frozen
    (await thread.get("messages"))!.push(hello);
    // @ts-expect-error: not its type
    await log.batch((batch) => batch.thread<State>("a").put("count", "1"));
  };
  assert.equal(typeof never, "function");
});

it("an untyped thread takes and gives anything", async () => {
  await using log = await openLog(":memory:");
  const thread = log.thread("a");
  await thread.put("k", { n: [1] });
  const value = await thread.get("k");
  await thread.put("other", [...value.n, 2]);
  await thread.update("k", (draft) => void draft.n.push(2));
  assert.deepEqual((await thread.get("k")).n, [1, 2]);
});

it("an event without a value has undefined for one", async () => {
  await using log = await openLog(":memory:");
  const thread = log.thread("a");
  const bare = await thread.append("started");
  same<typeof bare, AppEvent<"started", undefined>>();
  assert.equal(bare.value, undefined);
  const called = await thread.append("called", { tool: "x", args: [1] });
  same<typeof called.value.args, readonly number[]>();
  assert.equal(called.value.tool, "x");
});

it("a typed thread's changes name its keys", async () => {
  await using log = await openLog(":memory:");
  const thread = log.thread<State>("a");
  await thread.put("count", 1);
  for await (const change of thread.diff(0, 1)) {
    same<typeof change.key, keyof State>();
    const plain: Change = change;
    assert.equal(plain.key, "count");
    assert.equal(await thread.get(change.key), 1);
  }
  for await (const change of log.thread("a").diff(0, 1)) same<typeof change.key, string>();
  for await (const change of log.diff(0, 1)) same<typeof change.key, string>();
});

it("a projection's state is told by its initial value, by evolve, or by name", async () => {
  const typed = defineProjection({
    name: "a",
    version: 1,
    initial: () => ({ n: 0 }),
    evolve: (state, event) => ({ n: state.n + event.version }),
  });
  same<ReturnType<typeof typed.initial>, { n: number }>();
  // An empty list alone says nothing of what will be in it: then evolve's parameter, or the type by name, does.
  const byParameter = defineProjection({
    name: "b",
    version: 1,
    initial: () => [],
    evolve: (types: string[], event) => [...types, event.type],
  });
  same<ReturnType<typeof byParameter.initial>, string[]>();
  const byName = defineProjection<Event[]>({
    name: "c",
    version: 1,
    initial: () => [],
    evolve: (events, event) => [...events, event],
  });
  await using log = await openLog(":memory:");
  const [types, events] = [await log.project(byParameter), await log.project(byName)];
  await log.thread("t").append("x");
  same<Awaited<ReturnType<typeof types.state>>, readonly string[]>();
  assert.deepEqual(await types.state(), ["x"]);
  assert.equal((await events.state())[0]!.type, "x");
});
