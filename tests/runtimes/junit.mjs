/**
 * Reads the JUnit reports of Bun, Deno and Node. They differ: Bun and Node nest a suite for each `describe`, Deno lists a
 * `describe` as one more test whose steps are named "outer > inner". Only leaves are counted, so that the three agree.
 */

const TOKEN = /<!--[\s\S]*?-->|<!\[CDATA\[[\s\S]*?\]\]>|<(\/?)([\w:-]+)((?:\s+[\w:.-]+\s*=\s*"[^"]*")*)\s*(\/?)>/g;
const ATTRIBUTE = /([\w:.-]+)\s*=\s*"([^"]*)"/g;

/** The tests of a report: name with those of its suites, "passed", "failed" or "skipped", and what was said of it. */
export function casesOf(xml) {
  const cases = [];
  const suites = [];
  let current;
  let textStart = 0;
  for (const token of xml.matchAll(TOKEN)) {
    const [whole, close, tag, attributes, selfClosing] = token;
    if (tag === undefined) continue;
    if (tag === "testsuite") {
      if (close) suites.pop();
      else if (!selfClosing) suites.push(read(attributes));
    } else if (tag === "testcase" && !close) {
      const { name } = read(attributes);
      current = { name: [...describes(suites), name].join(" > "), state: "passed", text: "", reason: undefined };
      cases.push(current);
    } else if (tag === "skipped" && !close && current !== undefined) {
      const { message, type } = read(attributes);
      current.state = "skipped";
      current.reason = message === undefined ? undefined : type === "todo" ? `to do: ${message}` : message;
    } else if ((tag === "failure" || tag === "error") && current !== undefined) {
      if (close) current.text = unescape(xml.slice(textStart, token.index)).trim() || current.text;
      else {
        current.state = "failed";
        current.text = read(attributes).message ?? "";
        textStart = token.index + whole.length;
      }
    }
  }
  return leaves(cases);
}

/** The names of the `describe`s: a suite that stands for the file itself is none. */
function describes(suites) {
  return suites.map(({ name }) => name).filter((name) => !name.endsWith("_test.ts") && !name.startsWith("ext:"));
}

/** A test with steps stands for its steps, unless it failed without one of them having failed: in a hook, say. */
function leaves(cases) {
  const parents = new Map();
  for (const one of cases) {
    const parts = one.name.split(" > ");
    for (let length = 1; length < parts.length; length++) {
      const parent = parts.slice(0, length).join(" > ");
      parents.set(parent, (parents.get(parent) ?? false) || one.state === "failed");
    }
  }
  return cases.filter(({ name, state }) => !parents.has(name) || (state === "failed" && !parents.get(name)));
}

function read(attributes) {
  const found = {};
  for (const [, name, value] of attributes.matchAll(ATTRIBUTE)) found[name] = unescape(value);
  return found;
}

const ENTITIES = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };

function unescape(text) {
  return text.replace(/&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi, (whole, hex, decimal, name) => {
    if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16));
    if (decimal !== undefined) return String.fromCodePoint(Number(decimal));
    return ENTITIES[name] ?? whole;
  });
}
