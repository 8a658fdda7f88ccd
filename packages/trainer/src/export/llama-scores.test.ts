import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, onTestFinished, test } from 'vitest';

import { TINY_ARCHITECTURE, writeTinyGguf } from '../testing/index.ts';
import { LocalVersions } from '../learner/version-folders.ts';
import { openTrainer } from '../learner/open-trainer.ts';
import { llamaScores } from './llama-scores.ts';
import { logprobDifference, parityRow } from './parity.ts';

test('64 fixed tokens are scored as the trainer scores them, the same each time', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'llama-scores-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const modelPath = join(folder, 'base.gguf');
  // As many tokens as the vocabulary of that file.
  writeTinyGguf(modelPath, { ...TINY_ARCHITECTURE, vocabSize: 259 });
  const scores = await llamaScores(modelPath, 1);
  expect(scores.tokenIds).toHaveLength(64);
  expect(scores.logprobs).toHaveLength(64);
  expect(scores.logprobs[0]).toBeNull();
  expect(await llamaScores(modelPath, 1)).toEqual(scores);

  const trainer = await openTrainer({ modelPath, numThreads: 1 });
  onTestFinished(() => trainer.close());
  const lora = { rank: 2, alpha: 4, targets: ['q'], initSeed: 1 } as const;
  const learner = await trainer.learner(lora, { versions: new LocalVersions(join(folder, 'versions')) });
  const [own] = await learner.forward([parityRow(Int32Array.from(scores.tokenIds))], { under: 'base' });
  const { mean } = logprobDifference(own!.logprobs, scores.logprobs.slice(1).map(Number));
  expect(mean).toBeLessThan(0.01);
});
