/**
 * What every backend promises (log/backend.ts). A new one is held to all of it by naming it in support/backends.ts.
 */
import { describe, it } from "node:test";
import { appending } from "./contract/appending.ts";
import { branching } from "./contract/branching.ts";
import { randomHistories } from "./contract/histories.ts";
import { listing } from "./contract/listing.ts";
import { onStore } from "./contract/world.ts";
import type { BackendSubject } from "./support/backends.ts";

/** Declares the suite for a backend, and once more with the store closed and opened again in between. */
export function describeBackend(subject: BackendSubject): void {
  for (const reopening of subject.durable ? [false, true] : [false]) {
    describe(`${subject.name}${reopening ? ", opened again" : ""}`, () => {
      for (const [name, body] of Object.entries({ ...appending, ...branching, ...listing })) {
        it(name, onStore(subject, reopening, body));
      }
      it("random histories agree with the model", randomHistories(subject, reopening));
    });
  }
}
