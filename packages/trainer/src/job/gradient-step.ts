import type { ComputeGate, PackedRow, PolicyModel } from '../model/policy-model.ts';
import type { StepObjective } from '../objectives/step-objective.ts';
import type { OptimizerConfig, OptimizerState } from '../optimizer/adamw.ts';
import { requireFinite, updateWeights } from '../optimizer/weight-update.ts';

export interface StepParts {
  readonly model: PolicyModel;
  readonly optimizer: OptimizerState;
  readonly gate: ComputeGate;
  readonly signal: AbortSignal;
}

/** What a gradient step took. Seconds are wall time, waiting for the cores included. */
export interface StepMeasures {
  /** Norm of the gradient before it was clipped. */
  readonly gradNorm: number;
  readonly secondsForward: number;
  readonly secondsBackward: number;
  readonly secondsOptimizer: number;
}

/**
 * One gradient step, whatever it minimises: forward, loss and backward of each row, whose gradients add up; then clip and AdamW. Changes the
 * model's adapter and the optimizer's state.
 *
 * @throws {TrainerError} `trainer.non_finite` before any weight changed, or after a step that made one infinite; what the model throws
 */
export async function gradientStep(
  rows: readonly PackedRow[],
  objective: StepObjective,
  config: OptimizerConfig,
  { model, optimizer, gate, signal }: StepParts,
): Promise<StepMeasures> {
  const { tensors } = model.lora;
  for (const { gradient } of tensors) gradient.fill(0);
  let forwardMs = 0;
  let backwardMs = 0;
  for (const [index, row] of rows.entries()) {
    const started = performance.now();
    const forward = await model.forward(row, {
      gate,
      signal,
      keepForBackward: true,
      keepForEntropy: objective.usesEntropies,
    });
    const forwardEnded = performance.now();
    const { loss, gradient, entropyGradient } = objective.rowGradient(index, forward);
    requireFinite('the loss', [loss]);
    const lossGradient = Float32Array.from(gradient);
    requireFinite('the gradient of the loss', lossGradient);
    await model.backward(lossGradient, {
      gate,
      signal,
      ...(entropyGradient === null ? {} : { entropyGradient: Float32Array.from(entropyGradient) }),
    });
    forwardMs += forwardEnded - started;
    backwardMs += performance.now() - forwardEnded;
  }
  const backwardEnded = performance.now();
  const gradNorm = await updateWeights(tensors, optimizer, config, { gate, signal });
  return {
    gradNorm,
    secondsForward: forwardMs / 1000,
    secondsBackward: backwardMs / 1000,
    secondsOptimizer: (performance.now() - backwardEnded) / 1000,
  };
}
