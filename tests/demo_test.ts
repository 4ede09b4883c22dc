/**
 * The demo, run as a user runs it: a process of its own, on the runtime that runs this test.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { openLog } from "../mod.ts";

const DEMO = fileURLToPath(new URL("../cli/demo.ts", import.meta.url));
const CONVERSATIONS = fileURLToPath(new URL("../../shared/data/agent_threads.jsonl", import.meta.url));

const scratch = mkdtempSync(join(tmpdir(), "threadlog-demo-test-"));
after(() => rmSync(scratch, { recursive: true, force: true }));

interface Ended {
  readonly code: number | string | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The folder that the demo was given for temporary files. */
  readonly folder: string;
}

let runs = 0;

/** Runs the demo. Its temporary files go to a folder that only this run uses. */
async function demo(...args: string[]): Promise<Ended> {
  const folder = mkdtempSync(join(scratch, `run-${runs++}-`));
  const runtime = "Deno" in globalThis
    ? ["run", "--allow-all", "--no-check", "--quiet"]
    : process.execArgv.filter((arg) => /strip-types|warning/.test(arg));
  const env = { ...process.env, TMPDIR: folder, TMP: folder, TEMP: folder, NODE_TEST_CONTEXT: undefined };
  const child = spawn(process.execPath, [...runtime, DEMO, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  const texts = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => texts.stdout += chunk);
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => texts.stderr += chunk);
  const code = await new Promise<number | string | null>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => resolve(code ?? signal));
  });
  return { code, ...texts, folder };
}

function fileOf(name: string, content: string | Uint8Array): string {
  const file = join(scratch, name);
  writeFileSync(file, content);
  return file;
}

/** A figure of the summary, by its name. */
function figure(stdout: string, name: string): number {
  const found = new RegExp(`^ *${name} +([\\d,]+)`, "m").exec(stdout);
  assert.ok(found, `no figure ${name} in:\n${stdout}`);
  return Number(found[1]!.replaceAll(",", ""));
}

describe("the tour", () => {
  it("shows a conversation that survives SIGKILL, and every way to look at it", async () => {
    const { code, stdout, stderr, folder } = await demo();
    assert.equal(code, 0, stderr + stdout);
    assert.match(stdout, /SIGKILL +process \d+ is gone/);
    const [, acknowledged] = /acknowledged +(\d+) events/.exec(stdout)!;
    assert.ok(Number(acknowledged) >= 6);
    assert.match(stdout, new RegExp(`found +${acknowledged} of ${acknowledged}, equal`));
    assert.match(stdout, /under way +(there, and whole|not there, not even in part|nothing: the kill)/);
    assert.match(stdout, /^ +v16 +patch plan +booked$/m, "the story goes on to its end, each step once");
    assert.match(stdout, /last message +user: Yes! It likes the window\./, "version 12 is as it was");
    assert.match(stdout, /replace +\/euros +264/, "the diff is made of RFC 6902 operations");
    assert.match(stdout, /^ +v13 +fork +of trips\/ada, at version 12$/m);
    assert.match(stdout, /price +264 euros +196 euros/, "both endings are side by side");
    assert.match(stdout, /trips\/ada\/by-ferry +\/legs\/2 +v14 +patch +Juno/, "blame names the event");
    assert.match(stdout, /verified +21 events in 2 threads: ok/);
    assert.match(stdout, /Everything was as promised/);
    assert.deepEqual(readdirSync(folder), [], "the temporary folder is removed");
  });

  it("prints no colours into a pipe, and no line longer than 100 columns", async () => {
    const { stdout } = await demo();
    assert.ok(!stdout.includes("\x1b"));
    assert.deepEqual(stdout.split("\n").filter((line) => [...line].length > 100), []);
  });

  it("leaves a log that can be opened, with --keep", async () => {
    const { code, stdout, folder } = await demo("--keep");
    assert.equal(code, 0);
    const [kept] = readdirSync(folder);
    assert.ok(kept !== undefined && stdout.includes(`Kept in ${join(folder, kept)}`), stdout);
    const log = await openLog(join(folder, kept, "trip.db"), { readOnly: true });
    const threads = [];
    for await (const { thread, version } of log.threads({ prefix: "trips" })) threads.push({ thread, version });
    await log.close();
    assert.deepEqual(threads, [
      { thread: ["trips", "ada"], version: 16 },
      { thread: ["trips", "ada", "by-ferry"], version: 17 },
    ]);
  });
});

describe("the arguments", () => {
  it("are explained by --help", async () => {
    const { code, stdout } = await demo("--help");
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: npm run demo/);
  });

  for (const args of [["--kept"], ["a.jsonl", "b.jsonl"]]) {
    it(`are refused where they are wrong: ${args.join(" ")}`, async () => {
      const { code, stdout, stderr } = await demo(...args);
      assert.equal(code, 2);
      assert.equal(stdout, "");
      assert.match(stderr, /^(Unknown option --kept|One file at a time, not 2)\.\nUsage:/);
    });
  }
});

describe("loading a file", () => {
  it("reads every prefix of every conversation back", async () => {
    const talk = (id: string, messages: number) =>
      JSON.stringify({
        id,
        messages: Array.from({ length: messages }, (_, i) => ({ role: i % 2 ? "assistant" : "user", content: `${i}` })),
      });
    const odd =
      '{"id":"__proto__","messages":[{"__proto__":{"a":1},"":-0.0,"n":1e400},{"text":"\u2028\u0085\\u0000 🎻"}]}';
    const lines = [talk("a", 3), talk("b", 40) + "\r", "", odd, talk("", 1), talk("none", 0), "  "];
    const { code, stdout, stderr, folder } = await demo(fileOf("good.jsonl", "\ufeff" + lines.join("\n")));
    assert.equal(code, 0, stderr + stdout);
    assert.equal(figure(stdout, "conversations"), 5);
    assert.equal(figure(stdout, "threads"), 4);
    assert.equal(figure(stdout, "events"), 46);
    assert.equal(figure(stdout, "prefixes verified"), 46);
    assert.match(stdout, /Every prefix equals the messages that made it\.\n$/);
    assert.deepEqual(readdirSync(folder), []);
  });

  const missing = existsSync(CONVERSATIONS) ? false : "../shared/data/agent_threads.jsonl is not here";
  it("holds for 150 real conversations", { skip: missing }, async () => {
    const { code, stdout, stderr } = await demo(CONVERSATIONS);
    assert.equal(code, 0, stderr + stdout);
    assert.equal(figure(stdout, "conversations"), 150);
    assert.equal(figure(stdout, "threads"), 150);
    assert.equal(figure(stdout, "events"), 3916);
    assert.equal(figure(stdout, "prefixes verified"), 3916);
    // Storage grows with what changes: every version kept whole would take twenty times the file.
    assert.ok(figure(stdout, "bytes on disk") < 4 * figure(stdout, "bytes in"), stdout);
  });

  const good = '{"id":"first","messages":[{"role":"user"}]}\n';
  const deep = `{"id":"x","messages":[{"a":${"[".repeat(300)}${"]".repeat(300)}}]}`;
  const bad: readonly [string, string | Uint8Array, RegExp][] = [
    ["a line that is not JSON", good + '{"id":"x', /^Line 2: not JSON \(.+\)$/],
    ["control characters in it", good + "\x1b[31m{\x07", /^Line 2: not JSON \(\P{Cc}+\)$/u],
    ["a line that is a list", good + "[1]", /^Line 2: expected \{"id": .*\}, found a list$/],
    ["a line that is null", "\n\nnull", /^Line 3: expected .*, found null$/],
    ["no id", good + '{"messages":[]}', /^Line 2: "id" must be a string, found nothing$/],
    [
      "an id that is a number",
      good + '{"id":7,"messages":[]}',
      /^Line 2: "id" must be a string, found a value of type/,
    ],
    [
      "an id that is too long",
      `{"id":"${"x".repeat(5000)}","messages":[{}]}`,
      /^Line 1: the id was refused as too_large/,
    ],
    ["half a character in an id", '{"id":"\\ud800","messages":[{}]}', /^Line 1: the id was refused as invalid_id/],
    ["an id used twice", good + "\n" + good, /^Line 3: the id "first" is that of line 1, too$/],
    ["no messages", good + '{"id":"x"}', /^Line 2: "messages" must be a list, found nothing$/],
    [
      "messages that are text",
      good + '{"id":"x","messages":"hi"}',
      /^Line 2: "messages" must be a list, found a value/,
    ],
    [
      "a message that is null",
      good + '{"id":"x","messages":[{},null]}',
      /^Line 2: messages\[1\] must be an object, found/,
    ],
    [
      "half a character in a message",
      good + '{"id":"x","messages":[{},{"t":"\\udc00"}]}',
      /^Line 2: messages\[1\] was refused as unencodable/,
    ],
    ["a message nested too deep", good + deep, /^Line 2: messages\[0\] was refused as unencodable/],
    ["bytes that are not UTF-8", new Uint8Array([0x7b, 0xff, 0x0a]), /^Line 1: not UTF-8$/],
    ["nothing", "", /holds no conversation/],
    ["blank lines only", "\n \n", /holds no conversation/],
  ];
  for (const [i, [name, content, message]] of bad.entries()) {
    it(`refuses a file with ${name}, and says where`, async () => {
      const { code, stderr, folder } = await demo(fileOf(`bad-${i}.jsonl`, content));
      assert.equal(code, 1);
      assert.match(stderr.trimEnd(), message);
      assert.equal(stderr.trimEnd().split("\n").length, 1, "one line, and no stack");
      assert.deepEqual(readdirSync(folder), []);
    });
  }

  it("refuses a file that is not there, and a folder", async () => {
    const absent = await demo(join(scratch, "absent.jsonl"));
    assert.equal(absent.code, 1);
    assert.match(absent.stderr, /absent\.jsonl can't be read \(ENOENT\)\n$/);
    const folder = await demo(scratch);
    assert.equal(folder.code, 1);
    assert.match(folder.stderr, /is not a file/);
  });
});
