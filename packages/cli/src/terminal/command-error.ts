import { constants } from 'node:os';

/** 0: done. 1: it failed. 2: the command line or a setting is wrong. 3: service not reachable. */
export const EXIT_CODES = { done: 0, failed: 1, usage: 2, unreachable: 3 } as const;

/** The command line cannot be understood: exit code 2 and a pointer to the help. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** A command cannot do what it was asked to; the message is for the person who asked. Exit code 1. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}

/** The command was asked to end. Exit code 128 and the number of the signal, as shells have it. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
  readonly exitCode: number;

  constructor(signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP') {
    super('interrupted');
    this.exitCode = 128 + constants.signals[signal];
  }
}

/** Something is wrong that the command has printed already: exit code 1 and not a word more. */
export class ReportedError extends Error {
  override readonly name = 'ReportedError';
}
