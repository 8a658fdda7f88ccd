import { rmSync, statSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

import {
  countLine,
  COUNTS_FILE_VARIABLE,
  type FailedFile,
  slowestLines,
  type TestReport,
} from '../../scripts/lib/count-reporter.mjs';
import { runFailedAgain } from '../../scripts/lib/second-run.mjs';
import { makeTestFolder } from '../../scripts/lib/test-folder.mjs';
import { REPOSITORY, runProgram, runScript } from './support/run-script.ts';

const lastLine = (output: string): string | undefined => output.trimEnd().split('\n').at(-1);

async function temporaryDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-runner-'));
  onTestFinished(async () => await rm(directory, { recursive: true, force: true }));
  return directory;
}

test('the counts add up over projects, and a file that does not load is a failure', async () => {
  const countsFile = join(await temporaryDirectory(), 'counts.json');
  const fixture = join(REPOSITORY, 'tests/tooling/fixtures/counts');
  const { exitCode } = await runScript(
    'node_modules/vitest/vitest.mjs',
    ['run', '--root', fixture, `--reporter=${join(REPOSITORY, 'scripts/lib/count-reporter.mjs')}`],
    { env: { [COUNTS_FILE_VARIABLE]: countsFile } },
  );
  const counts = JSON.parse(await readFile(countsFile, 'utf8'));
  console.log(`the fixture's two projects gave ${countLine(counts)}`);
  // Twice 2 passed, 1 failed, 3 skipped (one todo); once a file that cannot be loaded.
  expect(counts).toMatchObject({ passed: 4, failed: 3, skipped: 6 });
  const failures = counts.failedFiles.map((file: FailedFile) => [file.project, file.path, file.counts.failed]);
  expect(failures.toSorted()).toEqual([
    ['first', 'outcomes.case.ts', 1],
    ['first', 'unloadable.case.ts', 1],
    ['second', 'outcomes.case.ts', 1],
  ]);
  const paths = counts.slowest.map(({ path }: { path: string }) => path);
  expect(paths.length).toBeGreaterThan(1);
  const times = counts.slowest.map(({ ms }: { ms: number }) => ms);
  expect(times).toEqual(times.toSorted((first: number, second: number) => second - first));
  const lines = slowestLines(counts.slowest).split('\n');
  expect(lines).toHaveLength(1 + paths.length);
  paths.forEach((path: string, index: number) => expect(lines[index + 1]).toContain(path));
  expect(countLine(counts)).toBe('4 passed, 3 failed, 6 skipped');
  expect(exitCode).toBe(1);
});

const report = (counts: object, files: FailedFile[] = []): TestReport => ({
  passed: 0,
  failed: 0,
  skipped: 0,
  repeated: 0,
  slowest: [],
  ...counts,
  failedFiles: files,
});
const failedFile = (path: string): FailedFile => ({
  path,
  project: 'unit',
  counts: report({ passed: 3, failed: 2, skipped: 1 }),
});

test.each([
  [
    'passes alone',
    'passed alone: it depends on the load',
    { passed: 5, skipped: 1 },
    0,
    '15 passed, 0 failed, 2 skipped',
  ],
  ['fails alone too', 'failed alone too', { passed: 4, failed: 1, skipped: 1 }, 1, '14 passed, 1 failed, 2 skipped'],
  ['does not run alone', 'failed alone too', {}, 0, '10 passed, 0 failed, 1 skipped'],
])('a file that failed next to others and %s is named, with its second counts', async (...cases) => {
  const [, result, second, code, line] = cases;
  const first = { report: report({ passed: 13, failed: 2, skipped: 2 }, [failedFile('a.test.ts')]), exitCode: 1 };
  const outcome = await runFailedAgain(first, () => Promise.resolve({ report: report(second), exitCode: code }));
  expect(countLine(outcome.report)).toBe(line);
  expect(outcome.exitCode === 0).toBe(result.startsWith('passed'));
  expect(outcome.lines).toEqual([`RAN AGAIN  unit  a.test.ts: 2 failed next to others, ${result}`]);
});

test.each([
  ['no test failed', report({ passed: 13 })],
  ['an error belongs to no file', report({ failed: 3 }, [failedFile('a.test.ts')])],
  ['many files failed', report({ failed: 8 }, ['a', 'b', 'c', 'd'].map(failedFile))],
])('nothing runs again if %s', async (_name, counts) => {
  const first = { report: counts, exitCode: counts.failed };
  const outcome = await runFailedAgain(first, () => Promise.reject(new Error('a second run')));
  expect(outcome).toEqual({ ...first, lines: [] });
});

test('a filter that matches nothing is a failure, and the count line still comes last', async () => {
  const { exitCode, output } = await runScript('scripts/test.mjs', ['no-such-test-file']);
  expect(output).toContain('No test ran. This counts as a failure.');
  expect(lastLine(output)).toBe('0 passed, 0 failed, 0 skipped');
  expect(exitCode).not.toBe(0);
});

test.each([
  ['a file system with room', tmpdir()],
  ['no such file system', '/nowhere'],
  ['a file system that cannot be written', '/proc'],
])('the folder of temporary files is fresh, and other accounts reach its files: %s', async (_name, memory) => {
  const folder = makeTestFolder(memory);
  onTestFinished(() => rmSync(folder, { recursive: true }));
  expect(folder.startsWith(join(tmpdir(), 'trainyard-test-'))).toBe(true);
  expect(statSync(folder).mode & 0o777).toBe(0o711);
  expect(await readdir(folder)).toEqual([]);
});

/** Runs .ci/run with an `npm` that prints and exits as scripted, to test the script's reaction. */
async function runCi(scripts: Record<'test' | 'check', { prints: string; exitCode: number }>) {
  const bin = join(await temporaryDirectory(), 'bin');
  await mkdir(bin);
  const cases = Object.entries(scripts).map(
    ([name, { prints, exitCode }]) => `  *${name}*) printf '%s\\n' '${prints}'; exit ${exitCode} ;;`,
  );
  await writeFile(join(bin, 'npm'), `#!/bin/sh\ncase "$*" in\n${cases.join('\n')}\nesac\n`);
  await chmod(join(bin, 'npm'), 0o755);
  const env = { PATH: `${bin}:${process.env['PATH']}` };
  return await runProgram('bash', [join(REPOSITORY, '.ci/run')], { env });
}

test('continuous integration succeeds when tests and checks do', async () => {
  const counts = '12 passed, 0 failed, 1 skipped';
  const { exitCode, output } = await runCi({
    test: { prints: counts, exitCode: 0 },
    check: { prints: 'check: all steps passed', exitCode: 0 },
  });
  expect(output).toContain('npm test: ok\nnpm run test:all -- --rest: ok\nnpm run check: ok\n');
  expect(lastLine(output)).toBe('24 passed, 0 failed, 2 skipped');
  expect(exitCode).toBe(0);
});

test.each([
  { reason: 'a failed test', test: 1, check: 0 },
  { reason: 'a failed check', test: 0, check: 1 },
])('continuous integration fails on $reason and still runs both', async (codes) => {
  const counts = '12 passed, 1 failed, 1 skipped';
  const { exitCode, output } = await runCi({
    test: { prints: counts, exitCode: codes.test },
    check: { prints: 'the check ran', exitCode: codes.check },
  });
  expect(output).toContain('the check ran');
  expect(lastLine(output)).toBe('24 passed, 2 failed, 2 skipped');
  expect(exitCode).toBe(1);
});

test('continuous integration counts a broken set-up as a failure', async () => {
  const { exitCode, output } = await runCi({
    test: { prints: 'bootstrap: npm ci failed', exitCode: 0 },
    check: { prints: 'check: all steps passed', exitCode: 0 },
  });
  expect(lastLine(output)).toBe('0 passed, 2 failed, 0 skipped');
  expect(exitCode).toBe(1);
});
