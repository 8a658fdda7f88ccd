import { createInterface } from 'node:readline/promises';

import { CommandError, UsageError } from './command-error.ts';

/**
 * Asks for confirmation before a deletion.
 *
 * @throws {UsageError} without a terminal; {CommandError} for an answer other than yes
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
