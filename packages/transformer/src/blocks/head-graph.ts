import type { Value } from '../graph/graph.ts';
import { add, input, log, matmul, mul, product, reduceMax, reshape, softmax, sub } from '../graph/graph.ts';
import type { Architecture } from '../model/architecture.ts';
import type { ProductLayout } from './block-graph.ts';

const VOCABULARY = 'vocabulary';

/**
 * Builds the graph of one vocabulary part's contribution to the distribution of the next token.
 *
 * h [N, H] normalised hidden states, vocabulary [C, H] → logPartition [N, 1] = log Σ exp(logit), meanLogit [N,
 * 1] = Σ p · logit and, with `direction`, mean [N, H] = Σ p · vocabulary, with `entropy` also product [N, H] = Σ
 * p · logit · vocabulary, where p sums to 1 over the part. Parts join like the blocks of an online softmax.
 *
 * With `replay` a logit is h · vocabulary · scale + offset, both [N, C]; mean and product use the scaled
 * vocabulary. With `products` outside, `vocabulary` names a matrix instead of an input.
 */
export function headGraph(
  architecture: Architecture,
  options: { direction: boolean; entropy: boolean; replay: boolean; products?: ProductLayout },
): Record<string, Value> {
  const { hiddenSize } = architecture;
  const h = input('h', ['N', hiddenSize]);
  const dims = { out: 'C', in: hiddenSize } as const;
  const isOutside = options.products === 'outside';
  const byVocabulary = (x: Value) =>
    isOutside ? product(x, VOCABULARY, dims, true) : matmul(x, input(VOCABULARY, [dims.out, dims.in]));
  const byTransposed = (x: Value) =>
    isOutside ? product(x, VOCABULARY, dims) : matmul(x, input(VOCABULARY, [dims.out, dims.in]), { transposeB: true });
  const scale = options.replay ? input('scale', ['N', 'C']) : null;
  const scaled = (x: Value) => (scale === null ? x : mul(x, scale));
  const products = scaled(byTransposed(h));
  const logits = options.replay ? add(products, input('offset', ['N', 'C'])) : products;
  const probabilities = softmax(logits);
  // log Σ exp(logit) = max logit - log(max probability).
  const logPartition = sub(reduceMax(logits, [-1]), log(reduceMax(probabilities, [-1])));
  // A row-by-row dot product, which needs no [N, C] temporary.
  const row = (value: Value) => reshape(value, ['N', 1, 'C']);
  const meanLogit = reshape(matmul(row(probabilities), row(logits), { transposeB: true }), ['N', 1]);
  if (!options.direction) return { logPartition, meanLogit };
  const mean = byVocabulary(scaled(probabilities));
  if (!options.entropy) return { logPartition, meanLogit, mean };
  return { logPartition, meanLogit, mean, product: byVocabulary(scaled(mul(probabilities, logits))) };
}
