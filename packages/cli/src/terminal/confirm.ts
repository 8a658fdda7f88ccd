import { createInterface } from 'node:readline/promises';

import { CommandError, UsageError } from './command-error.ts';

/**
 * Asks a question that must be answered with yes before something is deleted.
 *
 * @throws {UsageError} without a terminal; {CommandError} for another answer
 */
export async function confirm(question: string): Promise<void> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) throw new UsageError('No terminal to confirm on: pass `--yes`');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    if (!/^y(es)?$/i.test((await terminal.question(`${question} [y/N] `)).trim()))
      throw new CommandError('nothing was deleted');
  } finally {
    terminal.close();
  }
}
