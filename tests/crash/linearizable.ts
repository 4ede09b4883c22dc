/**
 * Decides whether a history of conditional writes and reads on one register is linearizable: whether there is one order
 * of all operations, that keeps the order of those that did not overlap, in which each gave what it had to give.
 *
 * The search is Wing and Gong's, with Lowe's memory of where it has been. It shares no code with the library.
 */

/** What a register holds: the version of its thread, and the token of the last write; "" at first. */
export interface State {
  readonly version: number;
  readonly token: string;
}

/** An operation, from when it was called to when it returned: Infinity if it never did. */
export type Operation =
  & { readonly from: number; readonly to: number }
  & (
    | { readonly kind: "read"; readonly token: string; readonly version: number }
    /** A write that expects a version, and what came of it; unknown if it did not return. */
    | { readonly kind: "write"; readonly token: string; readonly expect: number; readonly result: "done" | "unknown" }
    | { readonly kind: "refused"; readonly expect: number; readonly actual: number }
  );

/** The state after an operation; undefined if it can't have been here. */
function apply(operation: Operation, state: State): State | undefined {
  switch (operation.kind) {
    case "read":
      return operation.token === state.token && operation.version === state.version ? state : undefined;
    case "write":
      return operation.expect === state.version ? { version: state.version + 1, token: operation.token } : undefined;
    case "refused":
      return operation.actual === state.version && operation.actual !== operation.expect ? state : undefined;
  }
}

/** Whether there is such an order. */
export function isLinearizable(history: readonly Operation[]): boolean {
  const operations = [...history].sort((a, b) => a.from - b.from);
  const done = new Array<boolean>(operations.length).fill(false);
  const known = new Set<string>();
  let left = operations.filter(({ to }) => to !== Infinity).length;
  let first = 0;
  // A stack of its own: histories are longer than the engine's is deep.
  const taken: { readonly index: number; readonly state: State }[] = [];
  let state: State = { version: 0, token: "" };
  for (let from = 0; left > 0;) {
    const index = candidate(from);
    if (index === undefined) {
      const last = taken.pop();
      if (last === undefined) return false;
      done[last.index] = false;
      if (operations[last.index]!.to !== Infinity) left++;
      first = Math.min(first, last.index);
      state = last.state;
      from = last.index + 1;
      continue;
    }
    const next = apply(operations[index]!, state)!;
    done[index] = true;
    const key = `${next.version} ${next.token} ${remaining()}`;
    if (known.has(key)) {
      done[index] = false;
      from = index + 1;
      continue;
    }
    known.add(key);
    taken.push({ index, state });
    if (operations[index]!.to !== Infinity) left--;
    while (first < operations.length && done[first]) first++;
    state = next;
    from = 0;
  }
  return true;

  /** The next operation that may come now: none that is left had returned before it was called. */
  function candidate(from: number): number | undefined {
    let end = Infinity;
    for (let i = first; i < operations.length; i++) {
      if (!done[i] && operations[i]!.to < end) end = operations[i]!.to;
      if (operations[i]!.from > end) break;
    }
    for (let i = Math.max(first, from); i < operations.length && operations[i]!.from <= end; i++) {
      if (!done[i] && apply(operations[i]!, state) !== undefined) return i;
    }
    return undefined;
  }

  /** Which operations are left, told by the first and those behind it that are done. */
  function remaining(): string {
    let start = first;
    while (start < operations.length && done[start]) start++;
    const ahead: number[] = [];
    for (let i = start + 1; i < operations.length && i < start + MAX_AHEAD; i++) if (done[i]) ahead.push(i);
    return `${start} ${ahead}`;
  }
}

/** No more operations than this are ever under way behind one that is left. */
const MAX_AHEAD = 4096;
