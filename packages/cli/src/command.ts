/** One command of `trainyard`: a row of the table in `commands.ts`. */
export interface Command {
  readonly name: string;
  /** What it does, in one line of the list of commands. */
  readonly summary: string;
  /** All that `--help` prints; begins with `usage: trainyard NAME` and ends with a line break. */
  readonly help: string;
  /**
   * Does the work. `--help` never comes here, and an error needs no care: the one handler prints it as one line.
   *
   * @param args what follows the command's name
   * @returns the exit code: 0, or 1 where something is wrong that was printed already
   * @throws {UsageError} for a wrong command line
   */
  run(args: readonly string[]): Promise<number>;
}

/** 0: done. 1: it failed. 2: the command line or a setting is wrong. 3: no service was reached. */
export const EXIT_CODES = { done: 0, failed: 1, usage: 2, unreachable: 3 } as const;

/** The command line cannot be understood: exit code 2 and a pointer to the help. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** A command cannot do what it was asked to; the message is for the person who asked. Exit code 1. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}
