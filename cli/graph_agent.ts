/**
 * A support agent in LangGraph, for the demo and the tests: a model and its tools, three lookups in parallel, a
 * subgraph, a person who must approve, and a workflow of the functional API. Its model follows a script, so that every
 * run ends the same; what it says next depends on the conversation alone, as with a real one.
 *
 * @module
 */

import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import type { ChatResult } from "@langchain/core/outputs";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  Annotation,
  type BaseCheckpointSaver,
  Command,
  END,
  entrypoint,
  interrupt,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";

/** The customer's request. */
export const REQUEST = "Order 7 arrived broken. I want my money back.";

/** What the model says, turn by turn. */
const SCRIPT: readonly (() => AIMessage)[] = [
  () => calls("ai-1", "Let me look up the order.", { id: "call-1", name: "find_order", args: { order: 7 } }),
  () =>
    calls("ai-2", "I'll refund it, if you agree.", { id: "call-2", name: "refund", args: { order: 7, amount: 42 } }),
  () => new AIMessage({ id: "ai-3", content: "Done: 42 euros are on their way." }),
];

function calls(
  id: string,
  content: string,
  call: { id: string; name: string; args: Record<string, unknown> },
): AIMessage {
  return new AIMessage({ id, content, tool_calls: [{ ...call, type: "tool_call" }] });
}

class ScriptedModel extends BaseChatModel {
  override _llmType(): string {
    return "scripted";
  }

  override _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const turn = messages.filter((message) => AIMessage.isInstance(message)).length;
    const message = SCRIPT[turn]!();
    return Promise.resolve({ generations: [{ text: String(message.content), message }] });
  }
}

const TOOLS: Readonly<Record<string, (args: Record<string, unknown>) => string>> = {
  find_order: ({ order }) => `order ${order}: a teapot, 42 euros, delivered on Monday`,
  refund: ({ order, amount }) => `refunded ${amount} euros for order ${order}`,
};

const AgentState = Annotation.Root({
  ...MessagesAnnotation.spec,
  sources: Annotation<string[]>({ reducer: (before, added) => [...before, ...added], default: () => [] }),
  risk: Annotation<string>(),
  approved: Annotation<boolean>(),
});

/** What the agent remembers of a conversation. */
export interface State {
  readonly messages: BaseMessage[];
  readonly sources: string[];
  readonly risk: string;
  readonly approved: boolean;
}

const model = new ScriptedModel({});

async function think({ messages }: State) {
  return { messages: [await model.invoke(messages)] };
}

function useTools({ messages }: State) {
  const { tool_calls = [] } = messages.at(-1) as AIMessage;
  return {
    messages: tool_calls.map(({ id, name, args }) =>
      new ToolMessage({ id: `tool-${id}`, tool_call_id: id!, name, content: TOOLS[name]!(args) })
    ),
  };
}

/** After each turn of the model: look things up, ask a person, or stop. */
function next({ messages }: State): string | Send[] {
  const [call] = (messages.at(-1) as AIMessage).tool_calls ?? [];
  if (call === undefined) return END;
  if (call.name === "refund") return "assess";
  return ["orders", "shipping", "policy"].map((source) => new Send("search", { source }));
}

function search({ source }: { source: string }) {
  return { sources: [`${source}: nothing unusual`] };
}

const Risk = Annotation.Root({ risk: Annotation<string>() });
const Assessment = Annotation.Root({ sources: Annotation<string[]>(), ...Risk.spec });

/** Two steps with a history of their own, inside one of the agent's. */
const assessment = new StateGraph({ stateSchema: Assessment, output: Risk })
  .addNode("score", ({ sources }) => ({ risk: `${sources.length} sources` }))
  .addNode("judge", ({ risk }) => ({ risk: `low (${risk})` }))
  .addEdge(START, "score")
  .addEdge("score", "judge")
  .addEdge("judge", END)
  .compile();

function approve({ risk }: State) {
  return { approved: interrupt({ question: `Refund 42 euros? The risk is ${risk}.` }) === "yes" };
}

/** A graph at some point of a thread. */
export interface Snapshot<Values> {
  readonly values: Values;
  readonly config: RunnableConfig;
  readonly createdAt?: string;
  readonly next: readonly string[];
  readonly tasks: readonly { readonly interrupts: readonly unknown[] }[];
}

/** What the demo and the tests do with a graph. */
export interface Graph<Values> {
  invoke(input: unknown, config: RunnableConfig): Promise<unknown>;
  getState(config: RunnableConfig): Promise<Snapshot<Values>>;
  getStateHistory(config: RunnableConfig): AsyncIterable<Snapshot<Values>>;
  updateState(config: RunnableConfig, values: unknown, asNode?: string): Promise<RunnableConfig>;
}

/** The agent. */
export function buildAgent(checkpointer: BaseCheckpointSaver): Graph<State> {
  const graph = new StateGraph(AgentState)
    .addNode("think", think)
    .addNode("search", search)
    .addNode("tools", useTools)
    .addNode("assess", assessment)
    .addNode("approve", approve)
    .addEdge(START, "think")
    .addConditionalEdges("think", next, ["search", "assess", END])
    .addEdge("search", "tools")
    .addEdge("assess", "approve")
    .addConditionalEdges("approve", ({ approved }: State) => approved ? "tools" : END, ["tools", END])
    .addEdge("tools", "think")
    .compile({ checkpointer });
  return graph as unknown as Graph<State>;
}

const fetchLetter = task("fetch letter", (order: number) => `Dear customer of order ${order}`);
const signLetter = task("sign letter", (letter: string) => `${letter}, sorry. The shop`);

/** A workflow of the functional API: two tasks, and a person between them. */
export function buildLetter(checkpointer: BaseCheckpointSaver): Graph<string> {
  const workflow = entrypoint({ name: "letter", checkpointer }, async (order: number) => {
    const letter = await fetchLetter(order);
    const answer = interrupt({ question: `Send "${letter}"?` });
    return answer === "yes" ? await signLetter(letter) : "not sent";
  });
  return workflow as unknown as Graph<string>;
}

/** The conversation with the agent. */
export const AGENT_THREAD: RunnableConfig = { configurable: { thread_id: "order-7" } };
/** The thread of the workflow. */
export const LETTER_THREAD: RunnableConfig = { configurable: { thread_id: "letter-7" } };

/** What is left in the end. */
export interface Outcome {
  readonly messages: readonly string[];
  readonly sources: readonly string[];
  readonly risk: string;
  readonly approved: boolean;
  readonly letter: unknown;
}

/** Goes on from wherever the thread is, to the end: begins it, resumes it, or says yes for the person it waits for. */
async function finish<Values>(graph: Graph<Values>, input: unknown, config: RunnableConfig): Promise<Values> {
  let state = await graph.getState(config);
  // Not `next`: it leaves out the tasks of a superstep that are done, even if the superstep is not.
  while (state.createdAt === undefined || state.tasks.length > 0) {
    const isWaiting = state.tasks.some(({ interrupts }) => interrupts.length > 0);
    const go = state.createdAt === undefined ? input : isWaiting ? new Command({ resume: "yes" }) : null;
    await graph.invoke(go, { ...config, durability: "sync" } as RunnableConfig);
    state = await graph.getState(config);
  }
  return state.values;
}

/** Runs the agent and the workflow to their ends, from wherever they are. */
export async function runToEnd(checkpointer: BaseCheckpointSaver): Promise<Outcome> {
  const input = { messages: [new HumanMessage({ id: "human-1", content: REQUEST })] };
  const { messages, sources, risk, approved } = await finish(buildAgent(checkpointer), input, AGENT_THREAD);
  const letter = await finish(buildLetter(checkpointer), 7, LETTER_THREAD);
  return {
    messages: messages.map((message) => `${message.getType()}: ${message.text}`),
    sources,
    risk,
    approved,
    letter,
  };
}
