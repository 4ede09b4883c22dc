/**
 * The runtimes of the tests, with types.
 *
 * @module
 */

interface Tools {
  readonly ROOT: string;
  readonly tool: (name: string) => string;
  readonly versionOf: (path: string) => string;
  readonly run: (
    path: string,
    args: readonly string[],
    options?: { cwd?: string; env?: Record<string, string>; limitMs?: number },
  ) => Promise<{ readonly code: number | string; readonly output: string }>;
}

export const { ROOT, tool, versionOf, run }: Tools = await import(
  new URL("../tests/runtimes/tools.mjs", import.meta.url).href
);
