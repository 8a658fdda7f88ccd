import { TrainerError } from '../contract/errors.ts';
import type { ComputeGate, LoraTensor } from '../model/policy-model.ts';
import { adamWStep, gradientNorm, type OptimizerConfig, type OptimizerState } from './adamw.ts';

/**
 * Takes one AdamW step on the gradients that lie in the tensors.
 *
 * @returns norm of the gradient before it was clipped
 * @throws {TrainerError} `trainer.non_finite` before any weight changed, or after a step that made one infinite; what `signal` was aborted with
 */
export async function updateWeights(
  tensors: readonly LoraTensor[],
  optimizer: OptimizerState,
  config: OptimizerConfig,
  { gate, signal }: { gate: ComputeGate; signal?: AbortSignal },
): Promise<number> {
  const norm = gradientNorm(tensors);
  requireFinite('the gradient norm', [norm]);
  await gate.acquire(signal);
  try {
    adamWStep(tensors, optimizer, norm, config);
    for (const { name, value } of tensors) requireFinite(`a weight of ${name}`, value);
  } finally {
    gate.release();
  }
  return norm;
}

/** @throws {TrainerError} `trainer.non_finite` with the first value that is not */
export function requireFinite(what: string, values: Float32Array | readonly number[]): void {
  const bad = findNonFinite(values);
  if (bad === null) return;
  throw new TrainerError(
    'trainer.non_finite',
    `${what} is ${bad}: the job stops here and its last checkpoint stays in use`,
  );
}

/** A plain loop, as all weights pass through it in each step: a callback for each takes five times as long. */
function findNonFinite(values: Float32Array | readonly number[]): number | null {
  for (let i = 0; i < values.length; i++) if (!Number.isFinite(values[i]!)) return values[i]!;
  return null;
}
