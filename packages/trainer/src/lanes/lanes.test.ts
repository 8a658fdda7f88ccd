import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { DEFAULT_LORA_CONFIG } from '@trainyard/transformer';
import { TINY_ARCHITECTURE } from '@trainyard/transformer/testing';
import type { LanePass, LaneSetup } from './lane-compute.ts';
import type { LaneStep } from './lane-schedule.ts';
import { threadsStarted } from '../testing/threads-started.ts';
import { LaneThreads } from './lane-threads.ts';
import { Lanes } from './lanes.ts';

const NO_LAYERS: LaneSetup = {
  architecture: TINY_ARCHITECTURE,
  lora: DEFAULT_LORA_CONFIG,
  numThreads: 1,
  blocks: [],
  outputNorm: new Float32Array(0),
  bf16: null,
  streamed: null,
  vocabulary: new Float32Array(0),
};
const NO_QUERIES = { full: [], windowed: [], unrotated: [] };
const passOf = (hasTokens: boolean) =>
  ({
    share: { tokens: hasTokens ? [{ start: 0, end: 1 }] : [], queries: NO_QUERIES, sourceQueries: NO_QUERIES },
    inputs: [],
    intermediates: [],
  }) as unknown as LanePass;

/** Computes on two threads until the process is ended. */
const PROGRAM = `
  const { OrtPolicyModel } = await import('./ort-policy-model.ts');
  const { TINY_ARCHITECTURE, randomSource, tinyWeights } = await import('@trainyard/transformer/testing');
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
});

test('threads that are idle do not keep a process alive', () => {
  expect(run('return')).toMatchObject({ status: 0, signal: null });
});

test.each([
  ['the first lane', 0],
  ['a lane of its own thread', 1],
])(
  'when %s fails, the pass ends with its error while the other waits for it; the next pass is whole',
  async (_, failing) => {
    // There are no layers: a lane with tokens fails at the first step, for which the other waits.
    const threads = new LaneThreads();
    const lanes = new Lanes(NO_LAYERS, 2, threads);
    const steps: LaneStep[] = [
      { parts: 'tokens', operations: [{ kind: 'attentionInput', layer: 0 }], waits: [] },
      {
        parts: 'tokens',
        operations: [],
        waits: [
          { lanes: 'lower', step: 0 },
          { lanes: 'higher', step: 0 },
        ],
      },
    ];
    let held = 0;
    const gate = { acquire: async () => void held++, release: () => void held--, isWanted: true };
    for (let round = 0; round < 3; round++) {
      lanes.begin((lane) => passOf(lane === failing));
      await expect(lanes.run(steps, { gate })).rejects.toThrow(
        "Cannot read properties of undefined (reading 'forward')",
      );
      expect(held).toBe(0);
      lanes.begin(() => passOf(false));
      expect(await lanes.run(steps, { gate })).toEqual([]);
    }
    lanes.close();
    threads.close();
  },
);

test('threads compute for one policy after the other, also after a failed pass', async () => {
  const steps: LaneStep[] = [{ parts: 'tokens', operations: [{ kind: 'attentionInput', layer: 0 }], waits: [] }];
  const threads = new LaneThreads();
  const before = await threadsStarted();
  for (let policy = 0; policy < 4; policy++) {
    const lanes = new Lanes(NO_LAYERS, 3, threads);
    const hasTokens = policy === 1;
    lanes.begin((lane) => passOf(hasTokens && lane === 2));
    if (hasTokens) await expect(lanes.run(steps, {})).rejects.toThrow('Cannot read properties of undefined');
    else expect(await lanes.run(steps, {})).toEqual([]);
    lanes.close();
  }
  expect((await threadsStarted()) - before - 1).toBe(2);
  threads.close();
});

test('a policy that is closed in the middle of a pass keeps its threads to itself', async () => {
  const steps: LaneStep[] = [{ parts: 'tokens', operations: [], waits: [] }];
  const threads = new LaneThreads();
  const before = await threadsStarted();
  for (let policy = 0; policy < 2; policy++) {
    const lanes = new Lanes(NO_LAYERS, 2, threads);
    lanes.begin(() => passOf(false));
    const running = lanes.run(steps, {});
    // Before its thread can have answered.
    if (policy === 0) setImmediate(() => lanes.close());
    expect(await running).toEqual([]);
    lanes.close();
  }
  expect((await threadsStarted()) - before - 1).toBe(2);
  threads.close();
});
