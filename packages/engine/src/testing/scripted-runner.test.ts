import { expect, test } from 'vitest';
import { StepBatch } from '../runner/model-runner.ts';
import { mixedLogits, VOCAB_SIZE } from './scripted-logits.ts';
import { modelRunnerSuite } from './model-runner.suite.ts';
import { ScriptedRunner, type ScriptedRunnerOptions } from './scripted-runner.ts';

const KINDS: Record<string, Partial<ScriptedRunnerOptions>> = {
  scripted: {},
  'scripted, answers later': { answersLater: true },
  'scripted, several adapters in a batch': { adaptersPerBatch: 3 },
  'scripted, shares blocks of 16': { shareGranularity: 16 },
  'scripted, draws on the device': { drawsOnDevice: true },
  'scripted, all of it': { answersLater: true, adaptersPerBatch: Infinity, shareGranularity: 5, drawsOnDevice: true },
};

for (const [name, options] of Object.entries(KINDS)) {
  modelRunnerSuite(name, () => ({
    runner: new ScriptedRunner({
      vocabSize: VOCAB_SIZE,
      logits: mixedLogits,
      capacityTokens: 128,
      contextLength: 100,
      batchTokens: 48,
      adapterBytes: { one: 5, other: 6 },
      ...options,
    }),
    tokens: Array.from({ length: 50 }, (_, i) => (7 * i) % 61),
    adapterPaths: ['one', 'other'],
    spareCells: 0,
    tolerance: 0,
    reproducibleTolerance: 0,
  }));
}

test('a caller that breaks the rules gets an error', async () => {
  const runner = new ScriptedRunner({ vocabSize: VOCAB_SIZE, shareGranularity: 4, answersLater: true });
  const batch = new StepBatch(8);
  for (let i = 0; i < 8; i++) batch.add({ token: i, position: i, sequence: 0, wantsLogits: i === 7 });
  const rows = runner.run(batch);
  expect(() => runner.share(0, 1, 4)).toThrow('share while a batch is being computed');
  expect(() => runner.forget(0, 0)).toThrow('forget while a batch is being computed');
  await rows;
  expect(() => runner.share(0, 1, 3)).toThrow('cannot share 3 cells: not a multiple of 4');
  runner.share(0, 1, 4);
  batch.clear();
  const [one, other] = [runner.loadAdapter('a'), runner.loadAdapter('b')];
  batch.add({ token: 1, position: 8, sequence: 0, wantsLogits: true }, one);
  batch.add({ token: 1, position: 4, sequence: 1, wantsLogits: true }, other);
  await expect((async () => runner.run(batch))()).rejects.toThrow('2 adapters in a batch of at most 1');
});
