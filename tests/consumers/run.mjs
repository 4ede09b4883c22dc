/**
 * Installs Threadlog as its users do, in projects of their own outside of this tree, and runs a program there. publint
 * and the like pass packages that do not load; this does not. Needs the npm registry, for immer only.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { ROOT, run, tool } from "../runtimes/tools.mjs";
import { buildTarball } from "./tarball.mjs";

const EXPECTED = '{"step":2}';
const DENO_RUN = ["run", "--no-prompt", "--allow-read", "--allow-write", "--allow-env"];
const denoConfig = JSON.parse(readFileSync(join(ROOT, "deno.json"), "utf8"));

const home = mkdtempSync(join(tmpdir(), "threadlog-consumers-"));
let failed = 0;
let done = 0;

function project(name, files) {
  const folder = join(home, name);
  mkdirSync(folder, { recursive: true });
  cpSync(join(ROOT, "tests/consumers/main.ts"), join(folder, "main.ts"));
  for (const [file, content] of Object.entries(files)) {
    writeFileSync(join(folder, file), JSON.stringify(content, undefined, 2));
  }
  return folder;
}

async function step(name, cwd, program, args, expected, env) {
  const { code, output, seconds } = await run(program, args, { cwd, env });
  const good = code === 0 && (expected === undefined || output.trim().split("\n").at(-1) === expected);
  done++;
  if (!good) failed++;
  console.log(`${good ? "ok  " : "FAIL"} ${name} (${seconds.toFixed(1)} s)`);
  if (!good) console.log(`exit ${code}${expected ? `, expected ${expected}` : ""}\n${output}`);
  return good;
}

async function fromNpm(tarball) {
  const packageJson = { name: "consumer", private: true, type: "module" };
  const folder = project("npm", {
    "package.json": packageJson,
    "tsconfig.json": {
      compilerOptions: {
        target: "ESNext",
        module: "NodeNext",
        lib: ["ESNext", "DOM"],
        strict: true,
        noEmit: true,
        exactOptionalPropertyTypes: true,
        skipLibCheck: false,
        types: [],
      },
      files: ["types.ts"],
    },
  });
  writeFileSync(join(folder, "types.ts"), 'export { openLog } from "threadlog";\nexport type * from "threadlog";\n');
  if (!await step("npm install", folder, "npm", ["install", "--no-fund", "--no-audit", tarball])) return;
  await step("the package on Node", folder, tool("node"), ["main.ts", "node.db"], EXPECTED);
  await step("the package on Deno", folder, tool("deno"), [...DENO_RUN, "main.ts", "deno.db"], EXPECTED);
  await step("the package's declarations", folder, tool("bun"), ["check", "--no-script"]);
}

async function fromBun(tarball) {
  const folder = project("bun", { "package.json": { name: "consumer", private: true, type: "module" } });
  if (!await step("bun add", folder, tool("bun"), ["add", tarball])) return;
  await step("the package on Bun", folder, tool("bun"), ["main.ts", "bun.db"], EXPECTED);
}

/** As the README says for Deno without npm. */
async function fromUnpacked(tarball) {
  const { immer } = denoConfig.imports;
  const folder = project("unpacked", { "deno.json": { imports: { threadlog: "./package/mod.js", immer } } });
  if (!await step("tar", folder, "tar", ["-xzf", tarball])) return;
  await step("the unpacked package on Deno", folder, tool("deno"), [...DENO_RUN, "main.ts", "deno.db"], EXPECTED);
}

/** JSR serves the sources themselves: `links` puts this tree's in its place. */
async function fromJsr() {
  const library = join(home, "library");
  for (const entry of denoConfig.publish.include) {
    if (existsSync(join(ROOT, entry))) cpSync(join(ROOT, entry), join(library, entry), { recursive: true });
  }
  const folder = project("jsr", {
    "deno.json": {
      imports: { threadlog: `jsr:${denoConfig.name}@^${denoConfig.version}` },
      links: ["../library"],
      nodeModulesDir: "none",
    },
  });
  // A cache of its own: the first run must work from nothing.
  const env = { DENO_DIR: join(home, "deno") };
  await step("the JSR package on Deno", folder, tool("deno"), [...DENO_RUN, "main.ts", "jsr.db"], EXPECTED, env);
  await step("the JSR package's types", folder, tool("deno"), ["check", "main.ts"], undefined, env);
}

try {
  const tarball = await buildTarball(home);
  await fromNpm(tarball);
  await fromBun(tarball);
  await fromUnpacked(tarball);
  await fromJsr();
} finally {
  rmSync(home, { recursive: true, force: true });
}
console.log(`${done - failed} consumer steps passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
