import type { Floats } from './loss-input.ts';

/** A learner's output for a row with N trained tokens. */
export interface RowOutput {
  /** [N] */
  readonly logprobs: Floats;
  /** [N] in nats; null where the learner does not tell. */
  readonly entropies: Floats | null;
}

/** A row's part of the loss of its gradient step. */
export interface RowGradient {
  readonly loss: number;
  /** ∂loss/∂logprob, [N]. */
  readonly gradient: Floats;
  /** ∂loss/∂entropy, [N]; null: the loss does not look at entropies. */
  readonly entropyGradient: Float64Array | null;
}

/** The objective that one gradient step minimises: the sum over its rows. */
export interface StepObjective {
  /** Whether its rows have a gradient of entropies. */
  readonly usesEntropies: boolean;
  /** @param outputs of rows of the step; consecutive calls are about consecutive rows, each of them once */
  rowGradients(outputs: readonly RowOutput[]): readonly RowGradient[];
}
