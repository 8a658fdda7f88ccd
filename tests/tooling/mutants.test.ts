import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

import { EQUIVALENT_MUTANTS } from '../../lab/mutants/equivalent-mutants.mjs';
import { TestSession } from '../../lab/mutants/test-session.mjs';
import { REPOSITORY, runScript } from './support/run-script.ts';
import { SampleRepository } from './support/sample-repository.ts';

const SOURCE = 'packages/tokenizer/src/limits.ts';

const LIMITS = `export function isBelow(value: number, limit: number): boolean {
  return value < limit;
}

export function isAbove(value: number, limit: number): boolean {
  return value > limit;
}
`;

const FLAGS_SOURCE = 'packages/tokenizer/src/flags.ts';
const FLAGS = `export function isOn(value: number): boolean {
  return value === 1;
}
`;
const FLAGS_TEST = `import { expect, test } from 'vitest';
import { isOn } from './flags.ts';

test('on', () => {
  expect([0, 1].map(isOn)).toEqual([false, true]);
});
`;

/** Tests the limit itself in only one of the functions. */
const TESTS = `import { expect, test } from 'vitest';
import { isAbove, isBelow } from './limits.ts';

test('below', () => {
  expect([1, 2, 3].map((value) => isBelow(value, 2))).toEqual([true, false, false]);
});

test('above', () => {
  expect([1, 3].map((value) => isAbove(value, 2))).toEqual([false, true]);
});
`;

test('a file is judged by its own tests, regardless of earlier failures', async () => {
  await using sample = await SampleRepository.create({
    [SOURCE]: LIMITS,
    'packages/tokenizer/src/limits.test.ts': TESTS.replace('isAbove(value, 2)', 'isAbove(value, 0)'),
    [FLAGS_SOURCE]: FLAGS,
    'packages/tokenizer/src/flags.test.ts': FLAGS_TEST,
  });
  const session = new TestSession(sample.root);
  onTestFinished(() => session.kill());
  const [broken, sound] = ['limits', 'flags'].map((name) =>
    join(sample.root, `packages/tokenizer/src/${name}.test.ts`),
  );
  expect([await session.run([broken!], Infinity), await session.run([sound!], Infinity)]).toEqual([false, true]);
}, 600_000);

test('mutants are caught by tests that check them, survive otherwise, and the checkout is unchanged', async () => {
  await using sample = await SampleRepository.create({
    [SOURCE]: LIMITS,
    'packages/tokenizer/src/limits.test.ts': TESTS,
  });
  const options = ['--root', sample.root, '--files', '1', '--mutants', '6'];
  // The compiler's server may report on stderr that it was stopped during work.
  const { exitCode, stdout } = await runScript('lab/mutants/main.mjs', options);
  const lines = stdout.trim().split('\n');
  expect(lines.slice(0, 6)).toEqual([
    `caught      ${SOURCE}:2  early return: value < limit → false`,
    `caught      ${SOURCE}:2  early return: value < limit → true`,
    `caught      ${SOURCE}:2  comparison: < → <=`,
    `caught      ${SOURCE}:6  early return: value > limit → false`,
    `caught      ${SOURCE}:6  early return: value > limit → true`,
    `SURVIVED    ${SOURCE}:6  comparison: > → >=`,
  ]);
  expect(lines.at(-1)).toBe('5 of 6 mutants in 1 files caught (83.3 %), 1 survived, 0 equivalent, 0 unjudged; seed 1');
  expect(exitCode).toBe(1);
  expect(await readFile(join(sample.root, SOURCE), 'utf8')).toBe(LIMITS);
  // Several starts of Vitest and of the compiler.
}, 600_000);

test('every equivalent mutant names a line of its file', () => {
  const stale = EQUIVALENT_MUTANTS.filter(({ file, line }) => {
    const lines = readFileSync(join(REPOSITORY, file), 'utf8').split('\n');
    return !lines.some((text) => text.trim() === line);
  });
  expect(stale).toEqual([]);
});
