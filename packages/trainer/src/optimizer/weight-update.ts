import { TrainerError } from '../contract/errors.ts';
import type { ComputeGate, LoraTensor } from '../model/policy-model.ts';
import { adamWStep, gradientNorm, type OptimizerConfig, type OptimizerState } from './adamw.ts';

/**
 * @returns norm of the gradient before clipping
 * @throws {TrainerError} `trainer.non_finite` before any weight changed, or after a step that made one infinite;
 * the abort reason of `signal`
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

/** @throws {TrainerError} `trainer.non_finite` with the first non-finite value */
export function requireFinite(what: string, values: Float32Array | readonly number[]): void {
  const bad = findNonFinite(values);
  if (bad === null) return;
  throw new TrainerError(
    'trainer.non_finite',
    `${what} is ${bad}: the job stops here and its last checkpoint stays in use`,
  );
}

/** All weights pass through in each step: a callback takes five times as long. */
function findNonFinite(values: Float32Array | readonly number[]): number | null {
  for (let i = 0; i < values.length; i++) if (!Number.isFinite(values[i]!)) return values[i]!;
  return null;
}
