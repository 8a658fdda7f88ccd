import type { ForwardResult } from '../model/policy-model.ts';

/** A row's part of the loss of its gradient step. */
export interface RowGradient {
  readonly loss: number;
  /** ∂loss/∂logprob, [N]. */
  readonly gradient: Float32Array | Float64Array;
  /** ∂loss/∂entropy, [N]; null: the loss does not look at entropies. */
  readonly entropyGradient: Float64Array | null;
}

/** What one gradient step minimises: the sum of its rows' parts. */
export interface StepObjective {
  /** Whether its rows have a gradient of entropies. */
  readonly usesEntropies: boolean;
  /** Called once for each row, in order. */
  rowGradient(rowIndex: number, forward: ForwardResult): RowGradient;
}
