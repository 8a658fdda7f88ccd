/**
 * Main module of a scoring host: log-probabilities of fixed tokens by one model file, in a process that ends
 * to free all its memory.
 */
import { requireLoadable } from '@trainyard/engine';
import { llamaScores } from '@trainyard/trainer';

import { answerAsHost, hostOptions } from '../process/host-main.ts';
import type { ScoreOptions } from './score-in-child.ts';

await answerAsHost(() => {
  const { modelPath, numThreads } = hostOptions<ScoreOptions>();
  requireLoadable(modelPath).close();
  return llamaScores(modelPath, numThreads);
});
