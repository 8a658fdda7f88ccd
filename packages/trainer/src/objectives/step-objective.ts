import type { Floats } from './loss-input.ts';

/** Output of a learner for a row with N trained tokens. */
export interface RowOutput {
  /** [N] */
  readonly logprobs: Floats;
  /** [N] in nats; null if the learner does not report it. */
  readonly entropies: Floats | null;
}

/** A row's part of the loss of its gradient step. */
export interface RowGradient {
  readonly loss: number;
  /** ∂loss/∂logprob, [N]. */
  readonly gradient: Floats;
  /** ∂loss/∂entropy, [N]; null: the loss does not use entropies. */
  readonly entropyGradient: Float64Array | null;
}

/** Objective that one gradient step minimises: the sum over its rows. */
export interface StepObjective {
  /** True if its rows have a gradient of entropies. */
  readonly usesEntropies: boolean;
  /** @param outputs of rows of the step; consecutive calls get consecutive rows, each once */
  rowGradients(outputs: readonly RowOutput[]): readonly RowGradient[];
}
