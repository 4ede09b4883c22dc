/**
 * Which file systems a log may lie on.
 *
 * @module
 */

import { existsSync, lstatSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { ThreadlogError } from "../../log/errors.ts";

/** Answers with the kernel's number for the type of file system that a path lies on. */
export type FilesystemProbe = (path: string) => Promise<number>;

/**
 * Types that share no memory between machines, or whose locks can't be relied on: WAL needs both
 * (https://sqlite.org/wal.html, "all processes using a database must be on the same host"). Numbers from statfs(2).
 */
const NETWORK_TYPES: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB2"],
  [0x01021997, "9P"],
  [0x65735546, "FUSE (sshfs, virtiofs, ...)"],
  [0x00c36400, "Ceph"],
  [0x0bd00bd0, "Lustre"],
  [0x47504653, "GPFS"],
  [0x5346414f, "AFS"],
]);

/** Asks the operating system; where it can't tell (Windows), answers 0. */
export const probeFilesystem: FilesystemProbe = async (path) => {
  try {
    return (await statfs(path)).type >>> 0;
  } catch {
    return 0;
  }
};

/** Refuses a file on a network file system. */
export async function refuseNetworkFilesystem(path: string, probe: FilesystemProbe): Promise<void> {
  const name = NETWORK_TYPES.get(await probe(dirname(path)));
  if (name === undefined) return;
  throw new ThreadlogError("network_filesystem", `The file lies on a network file system: ${name}`, {
    place: path,
    remedy: "Its locks can't be trusted and the log could be damaged: use a local disk or PostgreSQL. " +
      "{ allowNetworkFilesystem: true } overrides.",
  });
}

/** Why no file can be at a path, where that is the path's own fault. */
export function pathProblem(
  path: string,
): { readonly what: string; readonly remedy: string; readonly place?: string } | undefined {
  const folder = dirname(path);
  try {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
      return { what: "The path is that of a folder", remedy: "Name a file in it." };
    }
    if (!statSync(folder).isDirectory()) throw Object.assign(new Error(), { code: "ENOTDIR" });
  } catch (error) {
    switch ((error as { code?: unknown }).code) {
      case "ENOENT":
        return { what: `The folder ${folder} does not exist`, remedy: "Create it first; only the file is made." };
      case "ENOTDIR":
        return { what: `${folder} is not a folder`, remedy: "Correct the path." };
      case "ENAMETOOLONG":
        return {
          what: "The path is too long for the file system",
          remedy: "Shorten it.",
          place: `${path.slice(0, 100)}...`,
        };
    }
  }
  return undefined;
}

/** A file's own name: SQLite names what lies beside it after that, whatever link led there. */
export function realPath(path: string): string {
  try {
    if (existsSync(path)) return realpathSync(path);
    const link = lstatSync(path, { throwIfNoEntry: false });
    if (link?.isSymbolicLink()) return realPath(resolve(dirname(path), readlinkSync(path)));
    return join(realpathSync(dirname(path)), basename(path));
  } catch {
    return path; // opening it says what is wrong
  }
}
