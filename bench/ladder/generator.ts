/**
 * Open-loop load: `generator.ts RATE SECONDS PORT...`. Request i is due at i / RATE, whatever became of those before it, and
 * its latency counts from then; so a store that is slow can't slow down what measures it. Prints the percentiles as JSON.
 *
 * @module
 */

import { connect, type Socket } from "node:net";
import process from "node:process";
import { percentile } from "../measure.ts";

/** More than this under way is a failure. */
const MAX_UNDER_WAY = 5000;
/** How long answers may come in after the last request, in milliseconds. */
const GRACE_MS = 2000;
/** What comes in the first part of a step is not counted. */
const WARM_UP = 0.2;

const [rate, seconds, ...ports] = process.argv.slice(2).map(Number) as [number, number, ...number[]];
const total = Math.floor(rate * seconds);
const first = Math.floor(total * WARM_UP);
const latencies = new Float64Array(total).fill(NaN);
let answered = 0;
let failed = 0;

const sockets = await Promise.all(ports.map((port) =>
  new Promise<Socket>((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => resolve(socket));
    socket.on("error", reject);
  })
));
const start = performance.now();
for (const socket of sockets) {
  socket.setNoDelay(true);
  let rest = new Uint8Array(0);
  socket.on("data", (chunk: Uint8Array) => {
    const now = performance.now() - start;
    const bytes = new Uint8Array(rest.length + chunk.length);
    bytes.set(rest);
    bytes.set(chunk, rest.length);
    const view = new DataView(bytes.buffer);
    let at = 0;
    for (; at + 5 <= bytes.length; at += 5) {
      const number = view.getUint32(at);
      answered++;
      if (bytes[at + 4] === 1) latencies[number] = now - number / rate * 1000;
      else failed++;
    }
    rest = bytes.slice(at);
  });
}

let sent = 0;
while (sent < total) {
  const due = Math.min(total, Math.floor((performance.now() - start) / 1000 * rate) + 1);
  for (const [index, socket] of sockets.entries()) {
    const numbers: number[] = [];
    for (let i = sent; i < due; i++) {
      if (i % sockets.length !== index) continue;
      if (sent - answered > MAX_UNDER_WAY) {
        failed++;
        answered++;
      } else numbers.push(i);
    }
    if (numbers.length === 0) continue;
    const bytes = new Uint8Array(numbers.length * 4);
    numbers.forEach((number, i) => new DataView(bytes.buffer).setUint32(i * 4, number));
    socket.write(bytes);
  }
  sent = due;
  await new Promise((resolve) => setTimeout(resolve, 1));
}
const deadline = performance.now() + GRACE_MS;
while (answered < total && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 5));
for (const socket of sockets) socket.destroy();
const counted = latencies.subarray(first);
const sorted = counted.filter((ms) => !Number.isNaN(ms)).sort();
const missing = (counted.length - sorted.length) / counted.length;
const at = (part: number) => percentile(sorted, part) ?? Infinity;
console.log(
  `@step ${JSON.stringify({ p50: at(0.5), p95: at(0.95), p99: at(0.99), failed: missing, failures: failed })}`,
);
process.exit(0);
