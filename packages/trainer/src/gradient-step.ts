import type { TrainingConfig } from './config.ts';
import { TrainerError } from './errors.ts';
import { learningRateAt } from './learning-rate.ts';
import { policyLoss } from './loss.ts';
import type { ComputeGate, PolicyModel } from './model/policy-model.ts';
import { adamWStep, gradientNorm, type OptimizerState } from './optimizer.ts';
import type { TrainingRow } from './pack.ts';

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
  const { logprobs, entropies } = await model.forward(row.row, { gate, signal, keepForBackward: true });
  const forwardEnded = performance.now();
  const { loss, gradient, metrics } = policyLoss(
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

  await model.backward(lossGradient, { gate, signal });
  const backwardEnded = performance.now();
  const norm = gradientNorm(tensors);
  requireFinite('the gradient norm', [norm]);

  const learningRate = learningRateAt(optimizer.numSteps, row.numHistories, config);
  await gate.acquire(signal);
  try {
    adamWStep(tensors, optimizer, norm, { ...config, learningRate });
    for (const { name, value } of tensors) requireFinite(`a weight of ${name}`, value);
  } finally {
    gate.release();
  }
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

function requireFinite(what: string, values: Float32Array | readonly number[]): void {
  if (values.every(Number.isFinite)) return;
  const bad = values.find((value) => !Number.isFinite(value));
  throw new TrainerError(
    'trainer.non_finite',
    `${what} is ${bad}: the job ends here and its last checkpoint stays in use`,
  );
}
