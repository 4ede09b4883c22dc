/**
 * A throwaway PostgreSQL for the tests: an own folder, a free port, nothing left behind. Plain JavaScript, so that the
 * Node which came with the machine runs it.
 *
 *   node tests/support/postgres.mjs      starts one, prints its URL, and stops it with Ctrl-C
 */
import { spawn, spawnSync } from "node:child_process";
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";

const MINIMUM = 14;
const START_LIMIT_MS = 30_000;
/** PostgreSQL refuses to run as root; this is "nobody". */
const OTHER_USER = 65534;

/** Debian's packages of a server and of what it loads; those that are on the machine already do no harm. */
const PACKAGES = [
  "postgresql-15",
  "libpq5",
  "libicu72",
  "libldap-2.5-0",
  "libsasl2-2",
  "liblz4-1",
  "libxml2",
  "libxslt1.1",
];

const SETTINGS = {
  listen_addresses: "127.0.0.1",
  max_connections: "200",
  log_min_messages: "fatal",
  log_min_error_statement: "panic",
};

/** Starts a server. Resolves to its URL and how to stop it, or to the reason why there is none. */
export async function startPostgres(settings = {}) {
  let folder;
  try {
    const tools = findTools() ?? fetchTools();
    folder = mkdtempSync(join(tmpdir(), "threadlog-postgres-"));
    const asUser = process.getuid?.() === 0 ? { uid: OTHER_USER, gid: OTHER_USER } : {};
    if (asUser.uid !== undefined) chownSync(folder, asUser.uid, asUser.gid);
    const options = { cwd: folder, env: { ...process.env, ...tools.env, LC_ALL: "C" }, ...asUser };
    const data = join(folder, "data");
    const made = spawnSync(
      join(tools.folder, "initdb"),
      ["-D", data, "-U", "threadlog", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"],
      { ...options, encoding: "utf8" },
    );
    if (made.status !== 0) throw new Error(`initdb failed: ${made.error ?? lastLine(made.stderr)}`);
    const port = await freePort();
    const server = new Server({ tools, options, folder, data, port, settings: { ...SETTINGS, ...settings } });
    await server.start();
    return server;
  } catch (error) {
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
    return { reason: `no PostgreSQL server: ${error.message}` };
  }
}

class Server {
  #how;
  #child;
  #removes = () => rmSync(this.#how.folder, { recursive: true, force: true });
  #dies = () => {
    this.#child?.kill("SIGQUIT");
    this.#removes();
  };

  constructor(how) {
    this.#how = how;
    process.on("exit", this.#dies);
  }

  get url() {
    return `postgres://threadlog@127.0.0.1:${this.#how.port}/postgres`;
  }

  get port() {
    return this.#how.port;
  }

  get folder() {
    return this.#how.folder;
  }

  /** The process of the postmaster, for tests that stop it in its tracks. */
  get pid() {
    return this.#child?.pid;
  }

  async start() {
    const { tools, options, folder, data, port, settings } = this.#how;
    const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const args = ["-D", data, "-p", String(port), "-k", folder, ...flags];
    const child = spawn(join(tools.folder, "postgres"), args, { ...options, stdio: ["ignore", "ignore", "pipe"] });
    this.#child = child;
    await new Promise((resolve, reject) => {
      let text = "";
      const timer = setTimeout(() => reject(new Error(`it did not start: ${lastLine(text)}`)), START_LIMIT_MS);
      const settle = (how, value) => {
        clearTimeout(timer);
        how(value);
      };
      child.on("error", (error) => settle(reject, error));
      child.once("exit", (code) => settle(reject, new Error(`it ended at once (${code}): ${lastLine(text)}`)));
      child.stderr.setEncoding("utf8").on("data", (chunk) => text = (text + chunk).slice(-10_000));
      // It answers before it says so: a connection that is refused no more will do.
      const probe = () =>
        spawnSync(join(tools.folder, "pg_ctl"), ["status", "-D", data], options).status === 0 &&
          existsSync(join(folder, `.s.PGSQL.${port}`)) && isReady(data)
          ? settle(resolve)
          : setTimeout(probe, 50);
      probe();
    });
  }

  /** Another server that follows this one. This one is stopped for a moment, to be copied. */
  async makeStandby(settings = {}) {
    const { options, data, port } = this.#how;
    await this.stop();
    const folder = mkdtempSync(join(tmpdir(), "threadlog-postgres-"));
    const copy = join(folder, "data");
    const copied = spawnSync("cp", ["-a", data, copy], { encoding: "utf8" });
    if (copied.status !== 0) throw new Error(`the server can't be copied: ${lastLine(copied.stderr)}`);
    writeFileSync(join(copy, "standby.signal"), "");
    if (options.uid !== undefined) {
      for (const path of [folder, join(copy, "standby.signal")]) chownSync(path, options.uid, options.gid);
    }
    await this.start();
    const primary_conninfo = `host=127.0.0.1 port=${port} user=threadlog application_name=standby`;
    const standby = new Server({
      ...this.#how,
      options: { ...options, cwd: folder },
      folder,
      data: copy,
      port: await freePort(),
      settings: { ...SETTINGS, ...settings, primary_conninfo },
    });
    await standby.start();
    return standby;
  }

  /** "SIGINT" ends it in good order, "SIGQUIT" as a crash would. */
  async stop(signal = "SIGINT") {
    const child = this.#child;
    if (child === undefined) return;
    this.#child = undefined;
    await new Promise((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null) return resolve();
      child.once("exit", resolve);
      child.kill(signal);
    });
  }

  /** Stops it for good. */
  async end() {
    await this.stop("SIGQUIT");
    process.off("exit", this.#dies);
    this.#removes();
  }
}

/** The last line of postmaster.pid tells the state. */
function isReady(data) {
  const found = spawnSync("cat", [join(data, "postmaster.pid")], { encoding: "utf8" });
  return /^(ready|standby)\s*$/m.test(found.stdout ?? "");
}

function findTools() {
  const homes = ["/usr/lib/postgresql", "/usr/local/lib/postgresql", "/opt/homebrew/opt"];
  const folders = homes.filter(existsSync).flatMap((home) =>
    readdirSync(home).map((name) => ({ version: Number(/(\d+)$/.exec(name)?.[1]), folder: join(home, name, "bin") }))
  );
  const usable = folders.filter(({ version, folder }) => version >= MINIMUM && existsSync(join(folder, "initdb")));
  usable.sort((a, b) => Math.abs(a.version - 15) - Math.abs(b.version - 15));
  if (usable.length > 0) return { folder: usable[0].folder, env: {} };
  const { stdout = "" } = spawnSync("pg_config", ["--bindir"], { encoding: "utf8" });
  const folder = (stdout ?? "").trim();
  return folder !== "" && existsSync(join(folder, "initdb")) ? { folder, env: {} } : undefined;
}

/** Debian's packages, unpacked into a cache: nothing is installed, and no rights are needed. */
function fetchTools() {
  const cache = join(tmpdir(), "threadlog-postgres-15");
  const folder = join(cache, "usr/lib/postgresql/15/bin");
  if (!existsSync(join(folder, "initdb"))) {
    mkdirSync(cache, { recursive: true });
    for (const name of PACKAGES) {
      const got = spawnSync("apt-get", ["download", name], { cwd: cache, encoding: "utf8" });
      if (got.error !== undefined) throw new Error("none is installed, and apt-get is not there to fetch one");
      if (got.status !== 0 && name.startsWith("postgresql")) {
        throw new Error(`none is installed, and apt-get download ${name} failed: ${lastLine(got.stderr)}`);
      }
    }
    for (const file of readdirSync(cache).filter((name) => name.endsWith(".deb"))) {
      const unpacked = spawnSync("dpkg", ["-x", file, "."], { cwd: cache, encoding: "utf8" });
      if (unpacked.status !== 0) throw new Error(`dpkg -x ${file} failed: ${unpacked.error ?? unpacked.stderr}`);
    }
  }
  const libraries = readdirSync(join(cache, "usr/lib"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name.includes("-linux-"))
    .map((entry) => join(cache, "usr/lib", entry.name));
  const env = { LD_LIBRARY_PATH: [...libraries, process.env.LD_LIBRARY_PATH ?? ""].join(":") };
  const runs = spawnSync(join(folder, "postgres"), ["--version"], {
    encoding: "utf8",
    env: { ...process.env, ...env },
  });
  if (runs.status !== 0) throw new Error(`the one that was fetched does not run: ${lastLine(runs.stderr)}`);
  return { folder, env };
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

function lastLine(text) {
  return (text ?? "").trim().split("\n").at(-1) ?? "";
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(0));
  const server = await startPostgres();
  console.log(server.url ?? server.reason);
}
