import { expect, test } from 'vitest';

import { testModel } from '../support/model.ts';
import { runProgram } from '../tooling/support/run-script.ts';

test('the arbiter bench has figures of chats and training, separately and together, with and without arbitration', async () => {
  const { exitCode, output } = await runProgram(
    process.execPath,
    [
      '--conditions=@trainyard/source',
      'bench/arbiter/main.ts',
      '--short',
      '--max-wait',
      '0',
      '--against',
      'unshared',
      '--against',
      'turns',
    ],
    { env: { TRAINYARD_MODEL: testModel().small } },
  );
  expect(exitCode, output).toBe(0);
  for (const name of ['shared', 'unshared', 'turns']) {
    const line = output.split('\n').find((row) => row.startsWith(`| ${name} `)) ?? '';
    const cells = line
      .split('|')
      .slice(2, -1)
      .flatMap((cell) => cell.split('/').map(Number));
    expect(cells, output).toHaveLength(9);
    expect(
      cells.slice(0, -1).every((cell) => cell > 0),
      output,
    ).toBe(true);
  }
  expect(output).toMatch(/Alone, shared ÷ unshared: chats \d\S* of the speed, training \d/);
}, 600_000);
