/** Mean negative log-likelihood over the trained tokens of a batch. */
export interface SftLoss {
  readonly loss: number;
  /** ∂loss/∂logprob, [N] of this row. */
  readonly gradient: Float32Array;
}

/**
 * A row's part of the loss of its batch: the sum of these is the mean of −log p over the batch, every token alike.
 *
 * @param logprobs [N] of the row's trained tokens
 * @param numBatchTokens trained tokens of all rows of the batch
 */
export function sftLoss(logprobs: Float32Array, numBatchTokens: number): SftLoss {
  let sum = 0;
  for (const logprob of logprobs) sum += logprob;
  return { loss: -sum / numBatchTokens, gradient: new Float32Array(logprobs.length).fill(-1 / numBatchTokens) };
}
