/**
 * Checks one commit message: `area: what the change does`, at most 72 characters, and a body if more than five files change. The hook `commit-msg` runs it.
 *
 *   git config core.hooksPath scripts/hooks
 *   node scripts/check-commit-message.mjs FILE
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

import { findMessageFaults } from './lib/commit-message.mjs';

const [path] = process.argv.slice(2);
if (path === undefined) {
  console.error('Usage: node scripts/check-commit-message.mjs FILE');
  process.exit(2);
}
const staged = execFileSync('git', ['diff', '--cached', '--name-only', '-z'], { encoding: 'utf8' });
const faults = findMessageFaults(readFileSync(path, 'utf8'), staged.split('\0').length - 1);
for (const fault of faults) console.error(`commit message: ${fault}`);
process.exitCode = faults.length === 0 ? 0 : 1;
