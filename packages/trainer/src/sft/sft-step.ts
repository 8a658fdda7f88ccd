import type { StepParts } from '../job/gradient-step.ts';
import { requireFinite, updateWeights } from '../optimizer/weight-update.ts';
import { batchRows, type SftBatch } from './sft-batches.ts';
import type { SftConfig } from './sft-config.ts';
import { sftLoss } from './sft-loss.ts';

export type SftStepParts = Omit<StepParts, 'config'> & { readonly config: SftConfig };

/**
 * One gradient step on one batch: forward and backward of each of its rows, then clip and AdamW. A batch without anything to train changes
 * nothing, the optimizer's state included.
 *
 * @returns the step's metrics, all finite
 * @throws {TrainerError} `trainer.non_finite`; what the model throws
 */
export async function sftStep(
  batch: SftBatch,
  learningRate: number,
  parts: SftStepParts,
): Promise<Record<string, number>> {
  const { model, config, optimizer, gate, signal } = parts;
  const { tensors } = model.lora;
  const rows = batchRows(batch, config);
  const counts = {
    num_trajectories: batch.numTrajectories,
    num_tokens: rows.reduce((total, { numSequenceTokens }) => total + numSequenceTokens, 0),
    num_trainable_tokens: rows.reduce((total, { row }) => total + row.targets.length, 0),
    num_dropped_trajectories: batch.numDropped,
  };
  if (rows.length === 0) return { loss: 0, learning_rate: learningRate, grad_norm: 0, ...counts, tokens_per_second: 0 };

  const started = performance.now();
  let loss = 0;
  for (const { gradient } of tensors) gradient.fill(0);
  for (const { row } of rows) {
    const { logprobs } = await model.forward(row, { gate, signal, keepForBackward: true });
    const part = sftLoss(logprobs, counts.num_trainable_tokens);
    loss += part.loss;
    requireFinite('the loss', [loss]);
    await model.backward(part.gradient, { gate, signal });
  }
  const norm = await updateWeights(tensors, optimizer, { ...config, learningRate }, { gate, signal });
  const seconds = (performance.now() - started) / 1000;
  return {
    loss,
    learning_rate: learningRate,
    grad_norm: norm,
    ...counts,
    tokens_per_second: counts.num_tokens / seconds,
  };
}
