import { constants } from 'node:os';

/** 0: done. 1: failed. 2: invalid command line or setting. 3: service not reachable. */
export const EXIT_CODES = { done: 0, failed: 1, usage: 2, unreachable: 3 } as const;

/** Invalid command line: exit code 2 and a pointer to the help. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Failure of a command, with a message for its user. Exit code 1. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}

/** The command was interrupted. Exit code 128 plus the number of the signal, as in shells. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
  readonly exitCode: number;

  constructor(signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP') {
    super('interrupted');
    this.exitCode = 128 + constants.signals[signal];
  }
}

/** The command has already printed the fault: exit code 1 without further output. */
export class ReportedError extends Error {
  override readonly name = 'ReportedError';
}
