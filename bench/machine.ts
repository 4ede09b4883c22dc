/**
 * What a run ran on. No names and no paths: the results are published.
 *
 * @module
 */

import { existsSync, readFileSync, realpathSync } from "node:fs";
import { arch, cpus, loadavg, release, tmpdir, totalmem, type } from "node:os";
import process from "node:process";

/** A machine. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly kernel: string;
  readonly fileSystem: string;
}

/** This machine. */
export function machine(): Machine {
  const processors = cpus();
  return {
    cpu: `${processors[0]?.model ?? "unknown"} (${arch()})`,
    cores: processors.length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: `${type()} ${release()}`,
    fileSystem: fileSystem(realpathSync(process.env.THREADLOG_BENCH_DIR ?? tmpdir())),
  };
}

/** How busy it is: processes that run or wait, a mean of the last minute. */
export function load(): number {
  return Math.round(loadavg()[0]! * 10) / 10;
}

function fileSystem(folder: string): string {
  const mounts = "/proc/self/mounts";
  if (!existsSync(mounts)) return "unknown";
  let best = { point: "", kind: "unknown" };
  for (const line of readFileSync(mounts, "utf8").split("\n")) {
    const [, point = "", kind = ""] = line.split(" ");
    const holds = folder === point || folder.startsWith(point === "/" ? "/" : `${point}/`);
    if (holds && point.length >= best.point.length) best = { point, kind };
  }
  return best.kind;
}
