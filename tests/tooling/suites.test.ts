import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

import { REPOSITORY, runScript } from './support/run-script.ts';

const FIXTURE = join(REPOSITORY, 'tests/tooling/fixtures/suites');

interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly ancestorTitles: readonly string[]; readonly status: string }[];
  }[];
}

test('the shared suites pass sound implementations and refuse each of many faults', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-suites-'));
  onTestFinished(async () => await rm(directory, { recursive: true, force: true }));
  const file = join(directory, 'report.json');
  await runScript('node_modules/vitest/vitest.mjs', [
    'run',
    '--root',
    FIXTURE,
    '--reporter=json',
    `--outputFile=${file}`,
  ]);
  const { testResults } = JSON.parse(await readFile(file, 'utf8')) as Report;
  /** Failed tests by suite: `LearnerSession: nothing is clipped`. */
  const numFailed: Record<string, number> = {};
  for (const { ancestorTitles, status } of testResults.flatMap((result) => result.assertionResults)) {
    const [suite = ''] = ancestorTitles;
    numFailed[suite] = (numFailed[suite] ?? 0) + Number(status === 'failed');
  }
  const isSound = (name: string): boolean => name.endsWith(': none');
  const names = Object.keys(numFailed);
  console.log(names.map((name) => `${name}: ${numFailed[name]} tests fail`).join('\n'));
  expect(names.filter(isSound).map((name) => [name, numFailed[name]])).toEqual([
    ['LearnerSession: none', 0],
    ['PolicyModel: none', 0],
    ['TokenMatcher: none', 0],
  ]);
  expect(names.filter((name) => !isSound(name) && numFailed[name] === 0)).toEqual([]);
  expect(names.length).toBeGreaterThan(50);
  // Three files of a few hundred small tests.
}, 600_000);
