import type { TrainingConfig } from './config.ts';
import { learningRateAt } from './learning-rate.ts';
import { policyLoss } from './loss.ts';
import type { ComputeGate, PolicyModel } from './model/policy-model.ts';
import type { OptimizerState } from './optimizer.ts';
import type { TrainingRow } from './pack.ts';
import { requireFinite, updateWeights } from './weight-update.ts';

export interface StepParts {
  readonly model: PolicyModel;
  readonly config: TrainingConfig;
  readonly optimizer: OptimizerState;
  readonly gate: ComputeGate;
  readonly signal: AbortSignal;
}

/** Log-probabilities of a row under other weights than those being trained, [N] each. */
export interface OtherLogprobs {
  /** Under the weights the job starts from; null: the sampled ones are the old ones. */
  readonly precalculated: Float32Array | null;
  /** Under the KL reference; null: no KL term. */
  readonly reference: Float32Array | null;
}

/**
 * One gradient step on one row: forward, loss, backward, clip, AdamW. Changes the model's adapter and the optimizer's state.
 *
 * @returns The step's metrics, all finite. Seconds are wall time, waiting for the cores included; memory is what the process held at most.
 * @throws {TrainerError} `trainer.non_finite` before any weight changed, or after a step that made one infinite; what the model throws
 */
export async function gradientStep(
  row: TrainingRow,
  other: OtherLogprobs,
  parts: StepParts,
): Promise<Record<string, number>> {
  const { model, config, optimizer, gate, signal } = parts;
  const { tensors } = model.lora;
  for (const { gradient } of tensors) gradient.fill(0);

  const started = performance.now();
  const { logprobs, entropies } = await model.forward(row.row, {
    gate,
    signal,
    keepForBackward: true,
    keepForEntropy: config.entropyCoef > 0,
  });
  const forwardEnded = performance.now();
  const { loss, gradient, entropyGradient, metrics } = policyLoss(
    {
      newLogprobs: logprobs,
      sampledLogprobs: row.sampledLogprobs,
      precalculatedLogprobs: other.precalculated,
      refLogprobs: other.reference,
      entropies,
      advantages: row.advantages,
      weights: row.weights,
      histories: row.histories,
    },
    config,
  );
  requireFinite('the loss', [loss]);
  const lossGradient = Float32Array.from(gradient);
  requireFinite('the gradient of the loss', lossGradient);

  await model.backward(lossGradient, {
    gate,
    signal,
    ...(entropyGradient === null ? {} : { entropyGradient: Float32Array.from(entropyGradient) }),
  });
  const backwardEnded = performance.now();
  const learningRate = learningRateAt(optimizer.numSteps, row.numHistories, config);
  const norm = await updateWeights(tensors, optimizer, { ...config, learningRate }, { gate, signal });
  const ended = performance.now();
  return {
    ...metrics,
    grad_norm: norm,
    learning_rate: learningRate,
    num_trainable_tokens: row.row.targets.length,
    num_trajectories_trained: row.numTrajectories,
    num_histories_trained: row.numHistories,
    num_row_tokens: row.row.tokenIds.length,
    num_sequence_tokens: row.numSequenceTokens,
    tokens_per_second: (1000 * row.numSequenceTokens) / (ended - started),
    seconds_forward: (forwardEnded - started) / 1000,
    seconds_backward: (backwardEnded - forwardEnded) / 1000,
    seconds_optimizer: (ended - backwardEnded) / 1000,
    peak_memory_mb: process.resourceUsage().maxRSS / 1024,
  };
}
