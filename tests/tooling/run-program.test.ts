import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { COMMANDS } from '../../scripts/lib/commands.mjs';
import { REPOSITORY, runScript } from './support/run-script.ts';

test('every program of npm run bench, lab, example and pack exists', () => {
  const files = Object.values(COMMANDS).flatMap(({ programs }) => Object.values(programs).map(({ file }) => file));
  expect(files.length).toBeGreaterThan(30);
  expect(files.filter((file) => !existsSync(join(REPOSITORY, file)))).toEqual([]);
});

test.each([
  [['lab'], 'Usage: npm run lab -- NAME, with NAME one of learn, tour, '],
  [['lab', 'vlm'], 'npm run lab: unknown program "vlm"'],
  [['bench', 'gatway'], 'npm run bench: unknown program "gatway"'],
])('%j prints the programs and fails', async (args, expected) => {
  const { exitCode, output } = await runScript('scripts/run.mjs', args);
  expect(output).toContain(expected);
  expect(exitCode).toBe(2);
});

test('a program gets its arguments, and its exit code is that of npm', async () => {
  const { exitCode, output } = await runScript('scripts/run.mjs', ['lab', 'mutants', '--no-such-flag']);
  expect(output).toContain('no-such-flag');
  expect(exitCode).not.toBe(0);
});
