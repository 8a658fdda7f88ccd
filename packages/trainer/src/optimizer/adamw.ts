import type { NamesOfPart, PlainSettings, TRAINING_FIELDS } from '@trainyard/protocol/fields';
import type { LoraTensor } from '../model/policy-model.ts';

type Fields = typeof TRAINING_FIELDS;

/**
 * The part `optimizer` of `TRAINING_FIELDS`, with the defaults of a reinforcement-learning job. A learner also
 * accepts a `maxGradNorm` of Infinity: no clipping.
 */
export type OptimizerConfig = Pick<PlainSettings<Fields>, NamesOfPart<Fields, 'optimizer'>> & {
  readonly learningRate: number;
};

/** Momentum of one objective is useless for the other. */
export type JobKind = 'rl' | 'sft';

/** Belongs to the model and carries over between jobs of the same kind. */
export interface OptimizerState {
  readonly jobKind: JobKind;
  numSteps: number;
  /** Running means of gradients (m) and of their squares (v), by tensor name. */
  readonly moments: Map<string, { m: Float32Array; v: Float32Array }>;
}

export function freshOptimizerState(tensors: readonly LoraTensor[], jobKind: JobKind = 'rl'): OptimizerState {
  const zeros = (tensor: LoraTensor): Float32Array => new Float32Array(tensor.value.length);
  return {
    jobKind,
    numSteps: 0,
    moments: new Map(tensors.map((tensor) => [tensor.name, { m: zeros(tensor), v: zeros(tensor) }])),
  };
}

/** Global, summed in float64. NaN or Infinity if a gradient is. */
export function gradientNorm(tensors: readonly LoraTensor[]): number {
  let squares = 0;
  for (const { gradient } of tensors) for (let i = 0; i < gradient.length; i++) squares += gradient[i]! * gradient[i]!;
  return Math.sqrt(squares);
}

/**
 * Decoupled weight decay (scaled by the learning rate), and gradients clipped to a global norm. Changes each
 * `value` and the state; arithmetic in float64, storage in float32.
 *
 * @param norm `gradientNorm(tensors)`, finite
 * @see Loshchilov & Hutter, arXiv 1711.05101; the clip and the bias correction are those of PyTorch
 */
export function adamWStep(
  tensors: readonly LoraTensor[],
  state: OptimizerState,
  norm: number,
  config: OptimizerConfig,
): void {
  const { learningRate, adamBeta1: beta1, adamBeta2: beta2 } = config;
  // 1e-6 as in torch.nn.utils.clip_grad_norm_.
  const clip = Math.min(1, config.maxGradNorm / (norm + 1e-6));
  state.numSteps++;
  const stepSize = learningRate / (1 - beta1 ** state.numSteps);
  const secondCorrection = Math.sqrt(1 - beta2 ** state.numSteps);
  const decay = 1 - learningRate * config.weightDecay;
  for (const { name, value, gradient } of tensors) {
    const { m, v } = state.moments.get(name)!;
    for (let i = 0; i < value.length; i++) {
      const slope = gradient[i]! * clip;
      const first = beta1 * m[i]! + (1 - beta1) * slope;
      const second = beta2 * v[i]! + (1 - beta2) * slope * slope;
      m[i] = first;
      v[i] = second;
      value[i] = value[i]! * decay - (stepSize * first) / (Math.sqrt(second) / secondCorrection + config.adamEpsilon);
    }
  }
}
