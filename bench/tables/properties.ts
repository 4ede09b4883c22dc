import type { Bar } from "../bars.ts";
import type { Row, Scale } from "../measure.ts";
import type { Group } from "../properties/group.ts";
import { ofLog } from "../properties/of_log.ts";
import { ofSaver } from "../properties/of_saver.ts";
import { ofServer } from "../properties/of_server.ts";
import { ofStore } from "../properties/of_store.ts";

const GROUPS: readonly Group[] = [ofServer, ofSaver, ofStore, ofLog];

/** What must hold of all groups. */
export const PROPERTIES_BARS: readonly Bar[] = GROUPS.flatMap(({ bars }) => bars);

/** The properties that made LangGraph's checkpointers in Python fast: what each costs where there is little and much. */
export async function properties(scale: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  for (const { run } of GROUPS) rows.push(...await run(scale));
  return rows;
}
