import type { Floats } from './loss-input.ts';
import type { RowGradient, RowOutput, StepObjective } from './step-objective.ts';

/**
 * A row's part of the mean over the batch's trained tokens: −Σ log p / N.
 *
 * @param logprobs [N] of the row's trained tokens
 * @param numBatchTokens trained tokens of all rows of the batch
 */
export function crossEntropy(logprobs: Floats, numBatchTokens: number): RowGradient {
  let sum = 0;
  for (const logprob of logprobs) sum += logprob;
  const gradient = new Float32Array(logprobs.length).fill(-1 / numBatchTokens);
  return { loss: -sum / numBatchTokens, gradient, entropyGradient: null };
}

/** Mean negative log-likelihood, with its running sum. */
export class CrossEntropyObjective implements StepObjective {
  readonly usesEntropies = false;
  readonly #numTokens: number;
  #loss = 0;

  constructor(numBatchTokens: number) {
    this.#numTokens = numBatchTokens;
  }

  get loss(): number {
    return this.#loss;
  }

  rowGradients(outputs: readonly RowOutput[]): readonly RowGradient[] {
    const rows = outputs.map(({ logprobs }) => crossEntropy(logprobs, this.#numTokens));
    for (const { loss } of rows) this.#loss += loss;
    return rows;
  }
}
