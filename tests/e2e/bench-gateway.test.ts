import { expect, test } from 'vitest';

import { runProgram } from '../tooling/support/run-script.ts';

test('the gateway bench gets every answer, of the stub and through the service, with an engine process too, and prints figures for all', async () => {
  const args = ['--short', '--engine-port', '--without-litellm', '--max-wait', '0'];
  const { exitCode, output } = await runProgram(process.execPath, [
    '--conditions=@trainyard/source',
    'bench/gateway/main.ts',
    ...args,
  ]);
  expect(exitCode, output).toBe(0);
  const heads = output.split('\n').filter((line) => line.startsWith('| through '));
  expect(heads).toHaveLength(1);
  for (const name of ['stub', 'ours', 'engine port']) {
    const line = output.split('\n').find((row) => row.startsWith(`| ${name} `)) ?? '';
    const cells = line.split('|').slice(2, -1).map(Number);
    expect(cells.every(Number.isFinite), output).toBe(true);
    const column = heads[0]!
      .split('|')
      .slice(2, -1)
      .map((head) => head.trim());
    expect(cells[column.indexOf('failed')], output).toBe(0);
    expect(cells[column.indexOf('answered / s')], output).toBeGreaterThan(0);
  }
}, 300_000);
