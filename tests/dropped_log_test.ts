/**
 * A log that is dropped without being closed: nothing acknowledged is lost, and nothing keeps the process alive.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { openLog } from "../mod.ts";
import { start, thisRuntime } from "./support/processes.ts";
import { all, collect, inFolder } from "./support/scratch.ts";

/** The process must end by itself within this after its last line, in milliseconds. */
const LEAVE_MS = 1500;

const WAYS: Readonly<Record<string, string>> = {
  put: "after appends",
  normal: "after appends at durability normal, beside another log",
  worker: "after a checkpoint on the thread beside",
  verify: "after verify",
  erase: "after erasing",
  subscription: "after a subscription was aborted",
  break: "after a subscription was left",
  projection: "with a projection inline",
  behind: "with a projection behind",
  unawaited: "with appends that nobody awaits",
};

describe("a log that is never closed", () => {
  for (const [what, when] of Object.entries(WAYS)) {
    it(
      `loses nothing and lets the process end ${when}`,
      inFolder(async (folder) => {
        const path = join(folder, "a.db");
        const child = start(thisRuntime, "drop.ts", [path, what]);
        await child.printed("end");
        const began = performance.now();
        const timer = setTimeout(() => child.process.kill("SIGKILL"), 8 * LEAVE_MS);
        const code = await child.ended;
        clearTimeout(timer);
        const took = performance.now() - began;
        assert.equal(code, 0, `ended with ${code} after ${took.toFixed()} ms: ${child.errors()}`);
        assert.ok(took < LEAVE_MS, `ended only after ${took.toFixed()} ms`);
        assert.equal(child.errors(), "");
        const acknowledged = child.lines.filter((line) => line.startsWith("ack ")).map((line) => Number(line.slice(4)));
        assert.ok(acknowledged.length > 0);
        await using log = await openLog(path);
        assert.equal(await log.head(), acknowledged.at(-1));
        if (what === "erase") assert.deepEqual((await all(log.read())).map(({ type }) => type), ["erase"]);
        else assert.deepEqual((await all(log.read())).map(({ position }) => position), acknowledged);
        assert.equal((await log.verify()).ok, true);
        if (what === "subscription") {
          assert.equal(child.lines.filter((line) => line.startsWith("saw ")).length, acknowledged.length);
        }
        if (what === "behind") assert.ok(child.lines.includes("state 20"));
      }),
    );
  }

  it(
    "in a living process leaves its events to the next, many times over",
    inFolder(async (folder) => {
      const path = join(folder, "a.db");
      for (let i = 1; i <= 100; i++) {
        const log = await openLog(path, { durability: "normal" });
        assert.equal((await log.thread("a").append("said", i)).position, i);
        if (i % 20 === 0) collect();
      }
      await using log = await openLog(path);
      assert.deepEqual((await all(log.read())).map(({ value }) => value), Array.from({ length: 100 }, (_, i) => i + 1));
    }),
  );
});
