/**
 * The house rules, checked by program: who may import whom, what a file may be called and hold, and what `mod.ts`
 * exports. A rule that is broken names the file.
 */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

/**
 * The floor of each file of log/. A file imports from its own floor and those below, never upward. 2 is the floor of
 * projections/ and backends/, 4 that of mod.ts, adapters/ and cli/. A file that is not listed is part of the face: 3.
 */
const FLOOR_OF_LOG_FILE: ReadonlyMap<string, number> = new Map([
  ["arguments", 0],
  ["errors", 0],
  ["event", 0],
  ["ids", 0],
  ["position", 0],

  ["backend", 1],
  ["codec", 1],
  ["cross_check", 1],
  ["delta", 1],
  ["digest", 1],
  ["equal", 1],
  ["freeze", 1],
  ["json_patch", 1],
  ["records", 1],
  ["recipe", 1],
  ["subscription", 1],
  ["upcaster", 1],
  ["value", 1],
  ["verify", 1],
  ["waiters", 1],
  ["writer", 1],
]);
/** Files whose name begins so are on floor 1 as well. */
const FLOOR_1_PREFIXES = ["msgpack"];
const FACE = 3;
const FLOOR_OF_FOLDER: ReadonlyMap<string, number> = new Map([
  ["projections", 2],
  ["backends", 2],
  ["adapters", 4],
  ["cli", 4],
]);

/** The names that `mod.ts` exports, types included. */
const EXPORTS: readonly string[] = [
  "AnyState",
  "AppEvent",
  "BackendStats",
  "Batch",
  "BatchThread",
  "BuiltInEvent",
  "BuiltInType",
  "Change",
  "Codec",
  "ConflictError",
  "CopyLogOptions",
  "CopyLogProgress",
  "CopyLogReport",
  "DeleteEvent",
  "Entry",
  "EntryOf",
  "EraseEvent",
  "EraseOptions",
  "ErrorCode",
  "ErrorDetails",
  "Event",
  "EventHeader",
  "Fault",
  "ForkEvent",
  "ForkOptions",
  "Head",
  "Immutable",
  "KeyOf",
  "ListOptions",
  "Log",
  "LogPoint",
  "LogStats",
  "LogView",
  "OpenOptions",
  "Operation",
  "OutcomeUnknownError",
  "PatchEvent",
  "Position",
  "Projection",
  "ProjectionDefinition",
  "ReadOptions",
  "ReplayOptions",
  "RestoreEvent",
  "SalvageOptions",
  "SalvageReport",
  "SetEvent",
  "Snapshot",
  "SubscribeOptions",
  "Thread",
  "ThreadId",
  "ThreadInfo",
  "ThreadPoint",
  "ThreadView",
  "ThreadlogError",
  "ThreadsOptions",
  "Upcaster",
  "UpdateOptions",
  "VerifyReport",
  "Version",
  "WriteOptions",
  "apply",
  "applyChanges",
  "copyLog",
  "defineProjection",
  "diff",
  "isBuiltIn",
  "msgpack",
  "openLog",
  "salvage",
];

/** Packages that the library may load, lazily; never as it is loaded itself. */
const LAZY_PACKAGES = new Set(["immer", "bun:sqlite", "node:sqlite", "postgres", "pg"]);

const MAX_LINES = 400;
const LIBRARY = ["log", "projections", "backends"];
const SOURCES = [...LIBRARY, "adapters", "cli", "bench", "tests"];
const TOP_LEVEL = new Set([
  ...SOURCES,
  ".ci",
  ".git",
  ".gitignore",
  ".npmrc",
  "CHANGELOG.md",
  "docs",
  "LICENSE",
  "README.md",
  "bun.lock",
  "bunfig.toml",
  "deno.json",
  "deno.lock",
  "mod.ts",
  "node_modules",
  "package-lock.json",
  "package.json",
  "tsconfig.json",
]);
/** What .gitignore keeps out of the repository. */
const IGNORED = /^(coverage|\.DS_Store)$|\.tgz$|\.db(-wal|-shm|-journal)?$/;

const root = fileURLToPath(new URL("../", import.meta.url));

function filesIn(folder: string): string[] {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join("/"))
    .filter((file) => !file.includes("node_modules/"))
    .sort();
}

function read(file: string): string {
  return readFileSync(join(root, file), "utf8");
}

interface Import {
  /** A file of this tree, from its root, or a package as it is written. */
  readonly target: string;
  readonly isPackage: boolean;
  /** Loaded with the file: neither a type nor `import()`. */
  readonly isStatic: boolean;
}

/** Statements start a line, which examples in comments never do. */
const STATEMENT = /^(?:import|export)\s+(type\s+)?(?:[\w*${}\s,]+?\s+from\s+)?"([^"]+)"/gm;
const DYNAMIC = /(typeof\s+)?\bimport\(\s*["'`]([^"'`]+)["'`]/g;

function importsOf(file: string): Import[] {
  const source = read(file);
  const code = source.split("\n").filter((line) => !/^\s*(\*|\/\/|\/\*)/.test(line)).join("\n");
  const found: Import[] = [];
  const add = (specifier: string, isStatic: boolean) => {
    const isPackage = !specifier.startsWith(".");
    const target = isPackage ? specifier : relative(root, resolve(root, dirname(file), specifier)).split(sep).join("/");
    found.push({ target, isPackage, isStatic });
  };
  for (const [, type, specifier] of code.matchAll(STATEMENT)) add(specifier!, type === undefined);
  for (const [, , specifier] of code.matchAll(DYNAMIC)) add(specifier!, false);
  return found;
}

function floorOf(file: string): number {
  if (file === "mod.ts") return 4;
  const [folder, name] = file.split("/") as [string, string];
  if (folder !== "log") return FLOOR_OF_FOLDER.get(folder) ?? Infinity;
  const stem = name.replace(/\.ts$/, "");
  if (FLOOR_1_PREFIXES.some((prefix) => stem.startsWith(prefix))) return 1;
  return FLOOR_OF_LOG_FILE.get(stem) ?? FACE;
}

const library = LIBRARY.flatMap(filesIn).filter((file) => file.endsWith(".ts"));
const product = [
  ...library,
  ...["adapters", "cli"].flatMap(filesIn).filter((file) => file.endsWith(".ts")),
  ...existsSync(join(root, "mod.ts")) ? ["mod.ts"] : [],
];

describe("imports", () => {
  it("finds the sources and what they import", () => {
    assert.ok(library.length > 0);
    assert.ok(library.flatMap(importsOf).length > 0);
    assert.deepEqual(importsOf("tests/house_test.ts").map(({ target }) => target), [
      "node:assert/strict",
      "node:fs",
      "node:path",
      "node:test",
      "node:url",
    ]);
  });

  it("run downward only", () => {
    const upward = product.flatMap((file) =>
      importsOf(file)
        .filter(({ isPackage, target }) => !isPackage && floorOf(target) > floorOf(file))
        .map(({ target }) => `${file} (floor ${floorOf(file)}) imports ${target} (floor ${floorOf(target)})`)
    );
    assert.deepEqual(upward, []);
  });

  it("keep projections and backends blind to each other", () => {
    const crossing = library.flatMap((file) => {
      const other = file.startsWith("projections/") ? "backends/" : "projections/";
      if (file.startsWith("log/")) return [];
      return importsOf(file).filter(({ target }) => target.startsWith(other)).map(({ target }) =>
        `${file} imports ${target}`
      );
    });
    assert.deepEqual(crossing, []);
  });

  it("never go in circles", () => {
    const circles: string[] = [];
    const finished = new Set<string>();
    const visit = (file: string, path: readonly string[]): void => {
      if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(" -> "));
      if (path.includes(file) || finished.has(file) || !existsSync(join(root, file))) return;
      for (const one of importsOf(file)) if (!one.isPackage && one.isStatic) visit(one.target, [...path, file]);
      finished.add(file);
    };
    for (const file of product) visit(file, []);
    assert.deepEqual(circles, []);
  });

  it("load packages lazily, and known ones only", () => {
    const wrong = library.concat(product.includes("mod.ts") ? ["mod.ts"] : []).flatMap((file) =>
      importsOf(file)
        .filter(({ isPackage }) => isPackage)
        .filter(({ target, isStatic }) => {
          if (isStatic) return LAZY_PACKAGES.has(target) || !target.startsWith("node:");
          return !LAZY_PACKAGES.has(target) && !target.startsWith("node:");
        })
        .map(({ target, isStatic }) => `${file} ${isStatic ? "loads" : "knows"} ${target}`)
    );
    assert.deepEqual(wrong, []);
  });
});

describe("files", () => {
  it("are named in snake_case", () => {
    const wrong = SOURCES.flatMap(filesIn)
      .filter((file) => /\.(ts|mts|mjs|js)$/.test(file))
      .filter((file) => !/^([a-z0-9_]+\/)*[a-z0-9]+(_[a-z0-9]+)*\.(ts|mjs|d\.mts)$/.test(file));
    assert.deepEqual(wrong, []);
  });

  it(`of the library have at most ${MAX_LINES} lines`, () => {
    const long = library.filter((file) => read(file).trimEnd().split("\n").length > MAX_LINES);
    assert.deepEqual(long, []);
  });

  it("of the library print nothing", () => {
    const loud = library.filter((file) => /^(?!\s*(\*|\/\/)).*\bconsole\./m.test(read(file)));
    assert.deepEqual(loud, []);
  });

  it("of the tests narrow nothing down", () => {
    const narrowed = filesIn("tests")
      .filter((file) => file.endsWith("_test.ts"))
      .filter((file) => /\b(test|it|describe|suite)\.only\(|\bonly:\s*true/.test(read(file)));
    assert.deepEqual(narrowed, []);
  });

  it("at the top level are those that a user or a tool needs there", () => {
    const strays = readdirSync(root).filter((name) => !TOP_LEVEL.has(name) && !IGNORED.test(name));
    assert.deepEqual(strays, []);
  });
});

describe("the package", () => {
  const manifest = JSON.parse(read("package.json"));
  const config = JSON.parse(read("deno.json"));

  it("has one version", () => {
    assert.equal(config.version, manifest.version);
    assert.equal(JSON.parse(read("package-lock.json")).version, manifest.version);
    assert.match(read("CHANGELOG.md"), new RegExp(`^## ${manifest.version.replaceAll(".", "\\.")}$`, "m"));
  });

  it("has the same entries and versions in package.json and deno.json", () => {
    assert.deepEqual(config.exports, manifest.exports);
    const versions = { ...manifest.dependencies, ...manifest.devDependencies };
    for (const [name, target] of Object.entries<string>(config.imports)) {
      if (target.startsWith("npm:")) assert.equal(target, `npm:${name}@${versions[name]}`);
    }
  });

  it("names one oldest Node", () => {
    const oldest = manifest.engines.node.replace(/^>=/, "");
    assert.match(oldest, /^\d+\.\d+$/);
    const wanted = new RegExp(`Node (?:must be|>=) ${oldest.replace(".", "\\.")}\\b`);
    for (const file of ["README.md", "CHANGELOG.md", "backends/sqlite/driver.ts"]) {
      assert.match(read(file), wanted, file);
    }
    assert.equal(JSON.parse(read("package-lock.json")).packages[""].engines.node, manifest.engines.node);
  });

  it("has a lock file that names no registry", () => {
    const { packages } = JSON.parse(read("package-lock.json"));
    const resolved = Object.values<{ resolved?: string }>(packages).map((one) => one.resolved ?? "");
    assert.deepEqual(resolved.filter((address) => address.includes("://")), []);
  });
});

describe("mod.ts", () => {
  const absent = existsSync(join(root, "mod.ts")) ? false : "mod.ts is not written yet";
  const unpinned = EXPORTS.length > 0 ? absent : "the list of exports is not pinned yet";

  it("has named exports only", { skip: absent }, () => {
    const code = read("mod.ts").replace(/\/\*[\s\S]*?\*\//g, "");
    assert.doesNotMatch(code, /export\s+(type\s+)?\*|export\s+default|\bas\s+default\b/);
    assert.doesNotMatch(code, /^export\s+(async|const|let|class|function|interface|enum|abstract)\b/m);
  });

  it("exports what is pinned", { skip: unpinned }, () => {
    const exported = [...read("mod.ts").matchAll(/^export\s+(?:type\s+)?\{([^}]*)\}/gm)]
      .flatMap(([, names]) => names!.split(","))
      .map((name) => name.trim().replace(/^type\s+/, "").replace(/^.*\s+as\s+/, ""))
      .filter((name) => name !== "");
    assert.deepEqual(exported.sort(), [...EXPORTS].sort());
  });
});
