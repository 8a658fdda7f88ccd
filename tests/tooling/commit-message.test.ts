import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';

import { findMessageFaults } from '../../scripts/lib/commit-message.mjs';

const ROOT = resolve(import.meta.dirname, '../..');

test.each([
  ['server: look up choice records by response id', 5],
  ['server, store: know a background answer by its row', 2],
  ['check: keep the order of wings\n\nThe check goes down into folders.\n# a comment\n', 30],
  ['Merge branch main', 40],
  ['server: add a check\n# ------------------------ >8 ------------------------\ndiff --git a/x b/x\n', 2],
])('%s: passes with %i files', (message, numFiles) => {
  expect(findMessageFaults(message, numFiles)).toEqual([]);
});

test.each([
  ['Add a check', 1, 'the subject must read "area: what the change does", got "Add a check"'],
  ['server: added a check', 1, 'the subject must be imperative ("add", not "added" or "Adds"), got "added"'],
  ['server: Add a check', 1, 'the subject must be imperative ("add", not "added" or "Adds"), got "Add"'],
  [`server: add ${'x'.repeat(70)}`, 1, 'the subject must have at most 72 characters, got 82'],
  ['server: add a check\nand more', 1, 'the second line must be empty'],
  [
    'server: add a check\n\n# ------------------------ >8 ------------------------\ndiff --git a/x b/x\n',
    6,
    'a body must give the reason if more than 5 files change, got 6 files',
  ],
  ['server: add a check', 6, 'a body must give the reason if more than 5 files change, got 6 files'],
])('%s: is refused with %i files', (message, numFiles, fault) => {
  expect(findMessageFaults(message, numFiles)).toEqual([fault]);
});

test('the hook refuses a commit with a message that is too long, and accepts another', () => {
  const folder = mkdtempSync(join(tmpdir(), 'commit-message-'));
  const git = (...args: string[]) =>
    spawnSync('git', ['-c', 'user.name=test', '-c', 'user.email=test@example.com', ...args], {
      cwd: folder,
      encoding: 'utf8',
    });
  try {
    git('init', '-q');
    git('config', 'core.hooksPath', join(ROOT, 'scripts/hooks'));
    writeFileSync(join(folder, 'file'), 'text');
    git('add', 'file');
    const refused = git('commit', '-m', `server: add ${'x'.repeat(70)}`);
    expect(refused.stderr).toContain('commit message: the subject must have at most 72 characters, got 82');
    expect(refused.status).toBe(1);
    expect(git('commit', '-m', 'server: add a file').status).toBe(0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
