/** Main module of a scoring host: log-probabilities of fixed tokens by one model file, in a process that gives its memory back whole. */
import { llamaScores } from '@trainyard/trainer';

import { connectHost, hostOptions, openOrRefuse } from '../hosts/host-main.ts';
import type { ScoreOptions, ScoredTokens } from './score-in-child.ts';

const scored = await openOrRefuse(() => {
  const { modelPath, numThreads } = hostOptions<ScoreOptions>();
  return llamaScores(modelPath, numThreads);
});
const { send } = connectHost<{ kind: 'shutdown' }, { kind: 'ready' } & ScoredTokens>(() => process.exit(0));
send({ kind: 'ready', ...scored });
