import { expect, test } from 'vitest';

import { testModel } from '../support/model.ts';
import { runProgram } from '../tooling/support/run-script.ts';

test('the bench of models measures a step on a model of random weights', async () => {
  const { exitCode, output } = await runProgram(
    process.execPath,
    ['--conditions=@trainyard/source', 'bench/models/main.ts', '--short', '--cores', '1', '--max-wait', '0'],
    { env: { TRAINYARD_MODEL: testModel().small } },
  );
  expect(exitCode, output).toBe(0);
  const row = output.split('\n').find((line) => line.startsWith('| tiny ')) ?? '';
  const [name, weights, cores, ...figures] = row.split(' | ').map((cell) => cell.replaceAll(/^\| | \|$/g, ''));
  expect([name, cores], output).toEqual(['tiny', '1']);
  for (const figure of [weights, ...figures.slice(0, 4)]) expect(Number(figure), output).toBeGreaterThan(0);
  // The step on one core, relative to itself.
  expect(figures[4], output).toBe('1.00');
}, 600_000);

test('an unknown shape, and cores that the machine lacks, are refused with the known ones', async () => {
  for (const [args, reason] of [
    [['--only', '7B'], 'unknown shape "7B"; the shapes are 135M, 270M, 0.6B, 1.7B'],
    [['--cores', '0'], '--cores must be from 1 to '],
  ] as const) {
    const { exitCode, output } = await runProgram(process.execPath, [
      '--conditions=@trainyard/source',
      'bench/models/main.ts',
      ...args,
    ]);
    expect([exitCode, output], output).toEqual([2, expect.stringContaining(reason)]);
  }
});
