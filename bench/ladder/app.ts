/**
 * The app under load: `app.ts CONTENDER TARGET OPERATION`. It listens on a free port, prints it, and answers each request
 * of four bytes (its number) with five: the number, and whether it went well.
 *
 * @module
 */

import { createServer, type Socket } from "node:net";
import process from "node:process";
import { randoms } from "../payloads.ts";
import { CONTENDERS, type Operation, THREADS } from "./contenders.ts";

const [name, target, operation] = process.argv.slice(2) as [string, string, Operation];
const contender = await CONTENDERS[name]!.open(target);
const random = randoms(process.pid);

function act(): Promise<unknown> {
  const thread = Math.floor(random() * THREADS);
  switch (operation) {
    case "append":
      return contender.append(thread);
    case "mix":
      return random() < 0.2 ? contender.append(thread) : contender.latest(thread);
    case "latest":
      return contender.latest(thread);
    case "replay":
      return contender.replay(thread);
  }
}

/** Answers of one turn go out together. */
class Answers {
  readonly #socket: Socket;
  #waiting: Uint8Array[] = [];

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  add(number: number, isGood: boolean): void {
    if (this.#waiting.length === 0) setImmediate(() => this.#send());
    const answer = new Uint8Array(5);
    new DataView(answer.buffer).setUint32(0, number);
    answer[4] = isGood ? 1 : 0;
    this.#waiting.push(answer);
  }

  #send(): void {
    const all = new Uint8Array(this.#waiting.length * 5);
    this.#waiting.forEach((answer, i) => all.set(answer, i * 5));
    this.#waiting = [];
    this.#socket.write(all);
  }
}

const server = createServer((socket) => {
  socket.setNoDelay(true);
  const answers = new Answers(socket);
  let rest = new Uint8Array(0);
  socket.on("error", () => {});
  socket.on("data", (chunk: Uint8Array) => {
    const bytes = new Uint8Array(rest.length + chunk.length);
    bytes.set(rest);
    bytes.set(chunk, rest.length);
    const view = new DataView(bytes.buffer);
    let at = 0;
    for (; at + 4 <= bytes.length; at += 4) {
      const number = view.getUint32(at);
      act().then(() => answers.add(number, true), (error) => {
        if (failures++ === 0) console.error(String(error));
        answers.add(number, false);
      });
    }
    rest = bytes.slice(at);
  });
});
let failures = 0;
server.listen(0, "127.0.0.1", () => console.log(`port ${(server.address() as { port: number }).port}`));
process.on("SIGTERM", () => contender.close().finally(() => process.exit(0)));
