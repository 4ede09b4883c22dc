/** Where vitest keeps nothing in the tree. */
import { tmpdir } from "node:os";
import { join } from "node:path";

export default {
  cacheDir: join(tmpdir(), "threadlog-vitest"),
  test: {
    globals: true,
    include: ["tests/langgraph/conformance/checkpointer_spec.mjs"],
    testTimeout: 20_000,
    hookTimeout: 60_000,
    pool: "threads",
    reporters: ["json"],
  },
};
