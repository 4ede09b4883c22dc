/**
 * Random commands against a plain model of a log: whatever is done, every log shows what the model says.
 *
 * THREADLOG_SEED and THREADLOG_RUNS choose other runs; a failure prints its seed and the shortest run that fails.
 */
import fc from "fast-check";
import { describe, it } from "node:test";
import { commands, finish } from "./model/commands.ts";
import { Expected, Session } from "./model/session.ts";
import { logSubjects } from "./support/backends.ts";
import { inFolder } from "./support/scratch.ts";
import { runs, seed, timeLimit } from "./support/seed.ts";

/** Small enough that threads are forgotten all the time, and reads are cold. */
const TINY = 2000;
/** On a server that others keep busy there is time for fewer runs. */
const LIMIT_MS = 30_000;

for (const subject of logSubjects) {
  for (const cacheBytes of [undefined, TINY]) {
    describe(`${subject.name}${cacheBytes === undefined ? "" : ", with a tiny cache"}`, () => {
      it("random commands agree with the model", async () => {
        const property = fc.asyncProperty(commands, async (steps) => {
          await inFolder(async (folder) => {
            const session = new Session(subject, folder, cacheBytes);
            const expected = new Expected();
            try {
              await session.open();
              await fc.asyncModelRun(() => ({ model: expected, real: session }), steps);
              await finish(expected, session);
            } finally {
              await session.close();
            }
          })();
        });
        await fc.assert(property, {
          numRuns: runs(subject.durable ? 15 : 60),
          seed,
          interruptAfterTimeLimit: timeLimit(LIMIT_MS),
        });
      });
    });
  }
}
