/**
 * Which file systems a log may lie on.
 *
 * @module
 */

import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
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
