import type { Floats } from './loss-input.ts';

export interface RowOutput {
  /** [N] */
  readonly logprobs: Floats;
  /** [N] in nats; null if the learner does not report it. */
  readonly entropies: Floats | null;
}

export interface RowGradient {
  readonly loss: number;
  /** ∂loss/∂logprob, [N]. */
  readonly gradient: Floats;
  /** ∂loss/∂entropy, [N]; null: the loss does not use entropies. */
  readonly entropyGradient: Float64Array | null;
}

/** One gradient step minimises the sum over its rows. */
export interface StepObjective {
  /** Rows have a gradient of entropies. */
  readonly usesEntropies: boolean;
  /** @param outputs consecutive calls get consecutive rows of the step, each once */
  rowGradients(outputs: readonly RowOutput[]): readonly RowGradient[];
}
