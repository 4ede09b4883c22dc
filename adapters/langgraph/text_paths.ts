/**
 * The texts of a value that are embedded: found by paths as LangGraph's stores read them.
 *
 * `$` is the whole value as JSON; `a.b` a field; `a[0]`, `a[-1]`, `a[*]` elements; `*` all of them; `{a,b.c}` several
 * fields.
 *
 * @module
 */

/** The texts at a path, each with a name that is unique in the value. */
export function textsAt(value: unknown, path: string): string[] {
  if (path === "" || path === "$") return [JSON.stringify(value, null, 2)];
  const tokens = path.match(/\[[^\]]*\]|\{[^}]*\}|[^.[{]+/g) ?? [];
  return tokens.reduce<unknown[]>((found, token) => found.flatMap((one) => step(one, token)), [value]).flatMap(textOf);
}

function step(value: unknown, token: string): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  if (token === "*") return Object.values(value);
  if (token.startsWith("[")) {
    if (!Array.isArray(value)) return [];
    const index = token.slice(1, -1);
    if (index === "*") return value;
    const at = /^-?\d+$/.test(index) ? value.at(Number(index)) : undefined;
    return at === undefined ? [] : [at];
  }
  if (token.startsWith("{")) {
    const paths = token.slice(1, -1).split(",").map((field) => field.trim().split("."));
    return paths.flatMap((fields) =>
      fields.reduce<unknown[]>((found, field) => found.flatMap((one) => step(one, field)), [
        value,
      ])
    );
  }
  return Object.hasOwn(value, token) ? [(value as Record<string, unknown>)[token]] : [];
}

function textOf(value: unknown): string[] {
  switch (typeof value) {
    case "string":
      return [value];
    case "number":
    case "boolean":
      return [String(value)];
    case "object":
      return value === null ? [] : [JSON.stringify(value, null, 2)];
    default:
      return [];
  }
}
