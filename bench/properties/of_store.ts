import { ThreadlogStore } from "../../adapters/langgraph/mod.ts";
import { withFolder } from "../files.ts";
import { interleave, type Row, type Scale } from "../measure.ts";
import { asked, count, counted, flat, type Group } from "./group.ts";

const SMALLEST = "1,000 items";
const SIZES = [[SMALLEST, 1000], ["10,000 items", 10_000], ["100,000 items", 100_000]] as const;
const LARGEST = "1,000,000 items";

const SEARCH = "search(limit 10) of";
const FILTERED = "search(limit 10) of a tenth, by a filter, of";
const PAGE = "search(limit 10), a page of 100,000 items";
const FIRST_PAGE = "the first page";
const LATER_PAGE = "the page at 5,000";
const EQUAL = "equal reads of one tick ask the log";
const SEARCHES = "1,000 equal searches";
const GETS = "1,000 equal gets";
const GETS_OF_A_TICK = "a get, each of so many in one tick";
const FEW_GETS = "2,000 gets";
const MANY_GETS = "20,000 gets";
const PUTS_OF_A_TICK = "a put, each of so many in one tick";
const FEW_PUTS = "1,000 puts";
const MANY_PUTS = "10,000 puts";

/** The store: what is asked for is what is paid for. */
export const ofStore: Group = {
  bars: [
    flat("search stops at its limit", SEARCH, SMALLEST, "100,000 items"),
    flat("the same with a filter", FILTERED, SMALLEST, "100,000 items"),
    flat("paging costs its page", PAGE, FIRST_PAGE, LATER_PAGE),
    counted("n equal gets in a tick are one", EQUAL, GETS, 1),
    counted("n equal searches in a tick are one, and a namespace", EQUAL, SEARCHES, 2),
    // Ten times as many: a search through those that wait would make each cost ten times as much.
    flat("20,000 gets in a tick are linear", GETS_OF_A_TICK, FEW_GETS, MANY_GETS, 4),
    flat("10,000 puts in a tick are linear", PUTS_OF_A_TICK, FEW_PUTS, MANY_PUTS, 4),
  ],
  run,
};

async function run({ round, quick, full }: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  await withFolder(async (path) => {
    const sizes = [...SIZES, ...full ? [[LARGEST, 1_000_000] as const] : []];
    const stores: { readonly name: string; readonly store: ThreadlogStore }[] = [];
    for (const [name, size] of sizes) {
      const store = await ThreadlogStore.open(path(`${size}.db`), { durability: "normal" });
      await fill(store, size);
      stores.push({ name, store });
    }
    const plan = { warmup: 20, calls: quick ? 100 : 400, block: 10, round };
    const search = (options: object) => (store: ThreadlogStore) => () => store.search(["items"], options);
    for (const [name, make] of [[SEARCH, search({ limit: 10 })], [FILTERED, search(TENTH)]] as const) {
      const sides = stores.map(({ name, store }) => ({ name, op: make(store) }));
      rows.push(...await interleave(sides, { case: name, ...plan }));
    }
    const { store } = stores[2]!;
    const pages = [
      { name: FIRST_PAGE, op: search({ limit: 10 })(store) },
      { name: LATER_PAGE, op: search({ limit: 10, offset: 5000 })(store) },
    ];
    rows.push(...await interleave(pages, { case: PAGE, ...plan, warmup: 2, calls: quick ? 6 : 100 }));
    for (const { store } of stores.slice(1)) await store.close();
    rows.push(...await ofOneTick(stores[0]!.store, quick));
    await stores[0]!.store.close();
  });
  return rows;
}

const TENTH = { limit: 10, filter: { kind: 3 } };

async function fill(store: ThreadlogStore, size: number): Promise<void> {
  for (let at = 0; at < size; at += 1000) {
    await store.batch(Array.from({ length: 1000 }, (_, i) => ({
      namespace: ["items"],
      key: `k${String(at + i).padStart(7, "0")}`,
      value: { n: at + i, kind: i % 10, text: "an item of the store" },
    })));
  }
}

async function ofOneTick(store: ThreadlogStore, quick: boolean): Promise<Row[]> {
  const times = (length: number, op: (i: number) => unknown) => Promise.all(Array.from({ length }, (_, i) => op(i)));
  const rows = [
    count(EQUAL, GETS, await asked(store.log, () => times(1000, () => store.get(["items"], "k0000007")))),
    count(EQUAL, SEARCHES, await asked(store.log, () => times(1000, () => store.search(["items"], { limit: 5 })))),
  ];
  const key = (i: number) => `k${String(i % 1000).padStart(7, "0")}-${i}`;
  const ways = [
    { of: GETS_OF_A_TICK, name: FEW_GETS, size: 2000, op: (i: number) => store.get(["items"], key(i)) },
    { of: GETS_OF_A_TICK, name: MANY_GETS, size: 20_000, op: (i: number) => store.get(["items"], key(i)) },
    { of: PUTS_OF_A_TICK, name: FEW_PUTS, size: 1000, op: (i: number) => store.put(["puts"], key(i), { i }) },
    { of: PUTS_OF_A_TICK, name: MANY_PUTS, size: 10_000, op: (i: number) => store.put(["puts"], key(i), { i }) },
  ];
  for (const { of, name, size, op } of ways) {
    let best = Infinity;
    for (let i = 0; i < (quick ? 3 : 9); i++) {
      const start = performance.now();
      await times(size, op);
      best = Math.min(best, (performance.now() - start) * 1000 / size);
    }
    rows.push({ case: of, side: name, unit: "us", p50: best });
  }
  return rows;
}
