import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

/** A random model computing on two threads until the process is told to end. */
const PROGRAM = `
  const { OrtPolicyModel } = await import('./ort-policy-model.ts');
  const { TINY_ARCHITECTURE, randomSource, tinyWeights } = await import('./tiny-model.ts');
  const model = new OrtPolicyModel(TINY_ARCHITECTURE, tinyWeights(TINY_ARCHITECTURE, randomSource(1)), { numThreads: 2 });
  const tokenIds = new Int32Array(3000);
  const positions = Int32Array.from(tokenIds.keys());
  const row = { tokenIds, positions, parents: positions.map((i) => i - 1), sources: positions, targets: tokenIds };
  await model.forward(row);
  if (process.argv[1] === 'exit') setTimeout(() => process.exit(7), 100);
  for (let pass = 0; pass < (process.argv[1] === 'exit' ? 1000 : 1); pass++) await model.forward(row);
`;

const run = (argument: string) =>
  spawnSync(process.execPath, ['--conditions=@trainyard/source', '--input-type=module', '--eval', PROGRAM, argument], {
    cwd: import.meta.dirname,
    encoding: 'utf8',
    timeout: 60_000,
  });

test('a process that ends in the middle of a run ends with the code it was given', () => {
  const { status, signal, stderr } = run('exit');
  expect({ status, signal, stderr }).toEqual({ status: 7, signal: null, stderr: '' });
}, 60_000);

test('threads that are idle do not keep a process alive', () => {
  expect(run('return')).toMatchObject({ status: 0, signal: null });
}, 60_000);
