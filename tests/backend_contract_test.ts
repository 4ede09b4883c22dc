/** The contract of log/backend.ts, for every backend that this runtime can run. */
import { describeBackend } from "./backend_contract.ts";
import { backendSubjects } from "./support/backends.ts";

for (const subject of backendSubjects) describeBackend(subject);
