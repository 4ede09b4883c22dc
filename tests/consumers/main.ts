// What a first user of the package does, in a project of their own.
import { openLog } from "threadlog";

const file = process.argv[2] ?? "agent.db";

const log = await openLog(file);
const thread = log.thread("a");
await thread.put("plan", { step: 1 });
await thread.update("plan", (draft: { step: number }) => {
  draft.step = 2;
});
await log.close();

const again = await openLog(file);
console.log(JSON.stringify(await again.thread("a").get("plan")));
await again.close();
