import type { Value } from '../graph/graph.ts';
import { add, input, log, matmul, mul, reduceMax, reshape, softmax, sub } from '../graph/graph.ts';
import type { Architecture } from '../model/architecture.ts';

/**
 * Builds the graph of one vocabulary part's contribution to the distribution of the next token.
 *
 * h [N, H] normalised hidden states, vocabulary [C, H] → logPartition [N, 1] = log Σ exp(logit), meanLogit [N, 1] = Σ p · logit and, with
 * `direction`, mean [N, H] = Σ p · vocabulary, with `entropy` also product [N, H] = Σ p · logit · vocabulary, where p sums to 1 over the part. Parts join like the blocks of an online softmax.
 *
 * With `replay` a logit is h · vocabulary · scale + offset, both [N, C], and the vocabulary of mean and product is scaled, too: what they are
 * for is the derivative by h.
 */
export function headGraph(
  architecture: Architecture,
  options: { direction: boolean; entropy: boolean; replay: boolean },
): Record<string, Value> {
  const { hiddenSize } = architecture;
  const h = input('h', ['N', hiddenSize]);
  const vocabulary = input('vocabulary', ['C', hiddenSize]);
  const scale = options.replay ? input('scale', ['N', 'C']) : null;
  const scaled = (x: Value) => (scale === null ? x : mul(x, scale));
  const products = scaled(matmul(h, vocabulary, { transposeB: true }));
  const logits = options.replay ? add(products, input('offset', ['N', 'C'])) : products;
  const probabilities = softmax(logits);
  // log Σ exp(logit) = max logit - log(max probability).
  const logPartition = sub(reduceMax(logits, [-1]), log(reduceMax(probabilities, [-1])));
  // A row-by-row dot product, which needs no [N, C] temporary.
  const row = (value: Value) => reshape(value, ['N', 1, 'C']);
  const meanLogit = reshape(matmul(row(probabilities), row(logits), { transposeB: true }), ['N', 1]);
  if (!options.direction) return { logPartition, meanLogit };
  const mean = matmul(scaled(probabilities), vocabulary);
  if (!options.entropy) return { logPartition, meanLogit, mean };
  return { logPartition, meanLogit, mean, product: matmul(scaled(mul(probabilities, logits)), vocabulary) };
}
