/**
 * Builds the npm package: `deno pack` turns the sources into JavaScript and declarations. It knows the JSR name and the
 * static imports only, so the manifest's name and dependencies come from package.json.
 *
 *   npm run tarball [folder]
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { ROOT, run, tool } from "../runtimes/tools.mjs";

const FROM_PACKAGE = [
  "name",
  "version",
  "description",
  "license",
  "engines",
  "dependencies",
  "peerDependencies",
  "peerDependenciesMeta",
];

/** Writes threadlog-VERSION.tgz to a folder; resolves to its path. */
export async function buildTarball(folder) {
  const work = mkdtempSync(join(tmpdir(), "threadlog-pack-"));
  try {
    await must(tool("deno"), [
      "pack",
      "--quiet",
      "--allow-dirty",
      "--no-source-maps",
      "--output",
      join(work, "raw.tgz"),
    ], ROOT);
    await must("tar", ["-xzf", "raw.tgz"], work);
    const unpacked = join(work, "package");
    const source = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    const manifest = JSON.parse(readFileSync(join(unpacked, "package.json"), "utf8"));
    for (const field of FROM_PACKAGE) if (source[field] !== undefined) manifest[field] = source[field];
    manifest.sideEffects = false;
    writeFileSync(join(unpacked, "package.json"), JSON.stringify(manifest, undefined, 2) + "\n");
    removeSources(unpacked);
    mkdirSync(folder, { recursive: true });
    await must("npm", ["pack", "--silent", "--pack-destination", folder], unpacked);
    return join(folder, `${manifest.name}-${manifest.version}.tgz`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** What no export reaches is packed as it stands: TypeScript that nothing in the package loads. */
function removeSources(unpacked) {
  for (const name of readdirSync(unpacked, { recursive: true })) {
    if (name.endsWith(".ts") && !name.endsWith(".d.ts")) rmSync(join(unpacked, name));
  }
}

async function must(path, args, cwd) {
  const { code, output } = await run(path, args, { cwd });
  if (code !== 0) throw new Error(`${path} ${args[0]} failed (exit ${code}):\n${output}`);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  console.log(await buildTarball(resolve(process.argv[2] ?? ".")));
}
