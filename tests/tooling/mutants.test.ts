import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { runScript } from './support/run-script.ts';
import { SampleRepository } from './support/sample-repository.ts';

const SOURCE = 'packages/tokenizer/src/limits.ts';

const LIMITS = `export function isBelow(value: number, limit: number): boolean {
  return value < limit;
}

export function isAbove(value: number, limit: number): boolean {
  return value > limit;
}
`;

/** Looks at the limit itself in one of the functions alone. */
const TESTS = `import { expect, test } from 'vitest';
import { isAbove, isBelow } from './limits.ts';

test('below', () => {
  expect([1, 2, 3].map((value) => isBelow(value, 2))).toEqual([true, false, false]);
});

test('above', () => {
  expect([1, 3].map((value) => isAbove(value, 2))).toEqual([false, true]);
});
`;

test('mutants are caught where tests look, survive where they do not, and the checkout stays as it is', async () => {
  await using sample = await SampleRepository.create({
    [SOURCE]: LIMITS,
    'packages/tokenizer/src/limits.test.ts': TESTS,
  });
  const options = ['--root', sample.root, '--files', '1', '--mutants', '6'];
  const { exitCode, output } = await runScript('scripts/mutants.mjs', options);
  const lines = output.trim().split('\n');
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
