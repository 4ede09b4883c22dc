/** LangGraph's own suite, its delta-channel part included, for the backend that THREADLOG_BACKEND names. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { deltaChannelHistoryTests, specTest } from "@langchain/langgraph-checkpoint-validation";
import { ThreadlogSaver } from "../../../adapters/langgraph/mod.ts";
import { emptySchema } from "../../support/postgres_log.ts";

const backend = process.env["THREADLOG_BACKEND"];
const folders = new Map();

const initializer = {
  // The suite skips nothing for a name that it doesn't know.
  checkpointerName: `threadlog over ${backend}`,
  async createCheckpointer() {
    if (backend === "memory") return await ThreadlogSaver.open(":memory:");
    if (backend === "postgres") {
      return await ThreadlogSaver.open(process.env["THREADLOG_POSTGRES_URL"], { schema: await emptySchema() });
    }
    const folder = mkdtempSync(join(tmpdir(), "threadlog-langgraph-"));
    const saver = await ThreadlogSaver.open(join(folder, "agent.db"));
    folders.set(saver, folder);
    return saver;
  },
  async destroyCheckpointer(saver) {
    await saver.close();
    const folder = folders.get(saver);
    if (folder !== undefined) rmSync(folder, { recursive: true });
  },
};

specTest(initializer);
deltaChannelHistoryTests(initializer);
