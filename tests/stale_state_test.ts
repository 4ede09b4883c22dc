/**
 * What random runs meet too seldom: state that is older than it looks, in a cache or in a second log on the same file.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Log } from "../mod.ts";
import { turn } from "./model/session.ts";
import { type LogSubject, logSubjects } from "./support/backends.ts";
import { all, inFolder, refused } from "./support/scratch.ts";

/** A test body that is given two logs on one file; the first keeps nothing in memory. */
function onTwo(subject: LogSubject, body: (one: Log, other: Log) => Promise<void>): () => Promise<void> {
  return inFolder(async (folder) => {
    await using one = await subject.open(folder, { cacheBytes: 0 });
    await using other = await subject.open(folder);
    await body(one, other);
  });
}

for (const subject of logSubjects) {
  describe(subject.name, () => {
    it(
      "reading an old snapshot of a forgotten thread leaves the present as it is",
      inFolder(async (folder) => {
        // Room for one thread: writing to another makes the log forget the first.
        await using log = await subject.open(folder, { cacheBytes: 1000 });
        const thread = log.thread("t");
        await thread.put("k", "old");
        await log.thread("other").put("k", 1);
        const before = log.snapshot();
        await thread.put("k", "new");
        await log.thread("other").put("k", 2);
        assert.equal(await before.thread("t").get("k"), "old");
        assert.equal(await thread.get("k"), "new");
        await log.thread("other").put("k", 3);
        assert.deepEqual(await before.thread("t").head(), { version: 1, position: 1 });
        assert.deepEqual(await thread.head(), { version: 2, position: 3 });
      }),
    );

    it(
      "a batch keeps a key apart from a thread below",
      inFolder(async (folder) => {
        await using log = await subject.open(folder);
        await log.batch((batch) => {
          batch.thread("a").put("b\0k", { of: "a" });
          batch.thread(["a", "b"]).update("k", (draft) => void (draft.seen = true), { initial: { of: "a/b" } });
        });
        assert.deepEqual(await log.thread(["a", "b"]).get("k"), { of: "a/b", seen: true });
      }),
    );

    const single = !subject.durable && "a log in memory has no second one";

    it(
      "an update finds the key that another log has just put",
      { skip: single },
      onTwo(subject, async (one, other) => {
        assert.equal(await one.thread("t").get("k"), undefined);
        await other.thread("t").put("k", { n: 1 });
        await turn();
        await one.thread("t").update("k", (draft) => void draft.n++);
        await one.refresh();
        await other.refresh();
        for (const log of [one, other]) assert.deepEqual(await log.thread("t").get("k"), { n: 2 });
      }),
    );

    it(
      "erasing finds the thread that another log has just made",
      { skip: single },
      onTwo(subject, async (one, other) => {
        assert.equal(await one.head(), 0);
        await other.thread("t").put("k", 1);
        await turn();
        assert.equal((await one.thread("t").erase())?.version, 2);
        await turn();
        assert.equal(await other.thread("t").get("k"), undefined);
      }),
    );

    it(
      "what another log has erased reads as erased, not as never written",
      { skip: single },
      onTwo(subject, async (one, other) => {
        await other.thread("t").put("k", 1);
        await other.thread("t").put("l", 2);
        await one.refresh();
        assert.equal((await all(one.threads())).length, 1);
        const before = one.snapshot();
        await other.thread("t").erase();
        await refused("erased", () => before.thread("t").get("k"));
        await refused("erased", () => all(before.thread("t").entries()));
        assert.deepEqual(await all(before.threads()), []);
      }),
    );

    it(
      "what one log has written, another in the same process reads in the same turn",
      { skip: single },
      onTwo(subject, async (one, other) => {
        for (let i = 0; i < 20; i++) {
          await one.thread("t").put("k", i);
          assert.equal(await other.thread("t").get("k"), i);
          await other.thread("t").put("l", i);
          assert.equal(await one.thread("t").get("l"), i);
        }
      }),
    );
  });
}
