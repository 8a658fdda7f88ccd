import type { LearnerSession } from '../learner/learner-session.ts';
import type { PackedRow } from '../model/policy-model.ts';
import type { StepObjective } from '../objectives/step-objective.ts';
import type { OptimizerConfig } from '../optimizer/adamw.ts';
import { requireFinite } from '../optimizer/weight-update.ts';

export interface StepParts {
  readonly learner: LearnerSession;
  readonly signal: AbortSignal;
}

/** Seconds are wall time, including waiting for the cores. */
export interface StepMeasures {
  /** Norm of the gradient before clipping; null if the learner does not report it. */
  readonly gradNorm: number | null;
  /** Measures by metric name. */
  readonly ofLearner: Readonly<Record<string, number>>;
  readonly secondsForward: number;
  readonly secondsBackward: number;
  readonly secondsOptimizer: number;
}

/**
 * Runs one gradient step for any objective and learner: forward, loss and backward of as many rows as the
 * learner keeps, then clipping and AdamW.
 *
 * @throws {TrainerError} `trainer.non_finite` before any weight changed, or after a step that made one infinite;
 * errors of the learner
 */
export async function gradientStep(
  rows: readonly PackedRow[],
  objective: StepObjective,
  config: OptimizerConfig,
  { learner, signal }: StepParts,
): Promise<StepMeasures> {
  const { maxKeptRows } = learner.capabilities;
  let forwardMs = 0;
  let backwardMs = 0;
  for (let first = 0; first < rows.length; first += maxKeptRows) {
    const started = performance.now();
    const keep = objective.usesEntropies ? 'entropyGradients' : 'gradients';
    const outputs = await learner.forward(rows.slice(first, first + maxKeptRows), { keep, signal });
    const forwardEnded = performance.now();
    const gradients = objective.rowGradients(outputs).map(({ loss, gradient, entropyGradient }) => {
      requireFinite('the loss', [loss]);
      const lossGradient = Float32Array.from(gradient);
      requireFinite('the gradient of the loss', lossGradient);
      return { lossGradient, entropyGradient: entropyGradient === null ? null : Float32Array.from(entropyGradient) };
    });
    await learner.backward(gradients, { signal });
    forwardMs += forwardEnded - started;
    backwardMs += performance.now() - forwardEnded;
  }
  const backwardEnded = performance.now();
  const { gradNorm, measures: ofLearner = {} } = await learner.step(config, { signal });
  return {
    gradNorm,
    ofLearner,
    secondsForward: forwardMs / 1000,
    secondsBackward: backwardMs / 1000,
    secondsOptimizer: (performance.now() - backwardEnded) / 1000,
  };
}
