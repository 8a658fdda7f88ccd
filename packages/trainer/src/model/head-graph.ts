import { gradients } from '../graph/autodiff.ts';
import type { Value } from '../graph/graph.ts';
import {
  gatherLast,
  gatherRows,
  input,
  log,
  matmul,
  reduceMax,
  reshape,
  rmsNorm,
  softmax,
  sub,
} from '../graph/graph.ts';
import type { Architecture } from './architecture.ts';

/**
 * Final norm, vocabulary and log-probability of one target per row.
 *
 * x [N, H], norm [H], vocabulary [V, H], targets int64 [N, 1] → logprob [N, 1], entropy [N, 1], and with `direction`
 * also ∂logprob/∂x [N, H]. A row's loss reaches x through its one log-probability, so that direction, scaled later by
 * ∂loss/∂logprob, is the whole backward pass: logits (V floats a row) never outlive the run that made them.
 */
export function headGraph(architecture: Architecture, options: { direction: boolean }): Record<string, Value> {
  const { hiddenSize, vocabSize, rmsEpsilon } = architecture;
  const x = input('x', ['N', hiddenSize]);
  const vocabulary = input('vocabulary', [vocabSize, hiddenSize]);
  const targets = input('targets', ['N', 1], 'int64');
  const h = rmsNorm(x, input('norm', [hiddenSize]), rmsEpsilon);
  const logits = matmul(h, vocabulary, { transposeB: true });
  const probabilities = softmax(logits);
  // log Σ exp(logit) = max logit - log(max probability): exact in float32 even when the target's probability underflows.
  const logPartition = sub(reduceMax(logits, [-1]), log(reduceMax(probabilities, [-1])));
  const logprob = sub(gatherLast(logits, targets), logPartition);
  // Σ p · logit as a row-by-row dot product, which needs no [N, V] temporary.
  const row = (value: Value) => reshape(value, ['N', 1, vocabSize]);
  const meanLogit = reshape(matmul(row(probabilities), row(logits), { transposeB: true }), ['N', 1]);
  const entropy = sub(logPartition, meanLogit);
  if (!options.direction) return { logprob, entropy };
  // ∂logprob/∂h = vocabulary[target] - Σ p · vocabulary
  const dh = sub(gatherRows(vocabulary, reshape(targets, ['N'])), matmul(probabilities, vocabulary));
  const [dx] = gradients(new Map([[h, dh]]), [x]);
  return { logprob, entropy, direction: dx! };
}
