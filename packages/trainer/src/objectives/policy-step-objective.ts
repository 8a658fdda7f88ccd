import type { ForwardResult } from '../model/policy-model.ts';
import type { TrainingRow } from '../packing/pack.ts';
import type { LossConfig } from './loss-config.ts';
import type { Floats, LossInput } from './loss-input.ts';
import { rowLoss } from './policy-loss.ts';
import { policyMetrics, type PolicyMetrics } from './policy-metrics.ts';
import { meanGap } from './reference-gaps.ts';
import type { RowGradient, StepObjective } from './step-objective.ts';

/** Log-probabilities of a row under other weights than those being trained, [N] each. */
export interface OtherLogprobs {
  /** Under the weights the job starts from; null: the sampled ones are the old ones. */
  readonly precalculated: Float32Array | null;
  /** Under the KL reference; null: no KL term. */
  readonly reference: Float32Array | null;
}

/** A row of a step with all that its loss reads besides the policy being trained. */
export interface ComparedRow {
  readonly row: TrainingRow;
  readonly other: OtherLogprobs;
}

/** The policy-gradient loss of a step, which remembers what its rows said for the metrics of the step. */
export class PolicyStepObjective implements StepObjective {
  readonly #rows: readonly ComparedRow[];
  readonly #config: LossConfig;
  readonly #numTokens: number;
  readonly #meanGap: number | null;
  readonly #inputs: LossInput[] = [];
  readonly #ratios: Float64Array[] = [];
  readonly #clipped = { low: 0, high: 0 };
  #policyLoss = 0;

  /** @param meanGapOfStep of all rows; null where there is one row, which is its own step, and without a KL term */
  constructor(
    rows: readonly ComparedRow[],
    { config, meanGapOfStep }: { config: LossConfig; meanGapOfStep: number | null },
  ) {
    this.#rows = rows;
    this.#config = config;
    this.#numTokens = rows.reduce((total, { row }) => total + row.row.targets.length, 0);
    this.#meanGap = meanGapOfStep;
  }

  get usesEntropies(): boolean {
    return this.#config.entropyCoef > 0;
  }

  rowGradient(rowIndex: number, forward: ForwardResult): RowGradient {
    const input = lossInput(this.#rows[rowIndex]!, forward);
    const step = { numTokens: this.#numTokens, meanGap: this.#meanGap ?? meanGap([input], this.#config) };
    const { loss, gradient, entropyGradient, policyLoss, ratios, clipped } = rowLoss(input, this.#config, step);
    // The model writes the next row over its results.
    this.#inputs.push({
      ...input,
      newLogprobs: input.newLogprobs.slice(),
      entropies: input.entropies?.slice() ?? null,
    });
    this.#ratios.push(ratios);
    this.#policyLoss += policyLoss;
    this.#clipped.low += clipped.low;
    this.#clipped.high += clipped.high;
    return { loss, gradient, entropyGradient };
  }

  /** Those that one row of all the step's histories would have. */
  metrics(): PolicyMetrics {
    const inputs = this.#inputs;
    const all = (of: (input: LossInput) => Floats): Float64Array =>
      Float64Array.from(inputs.flatMap((input) => Array.from(of(input))));
    const has = (of: (input: LossInput) => Floats | null): boolean => inputs.every((input) => of(input) !== null);
    return policyMetrics(
      {
        newLogprobs: all((input) => input.newLogprobs),
        sampledLogprobs: all((input) => input.sampledLogprobs),
        precalculatedLogprobs: null,
        refLogprobs: has((input) => input.refLogprobs) ? all((input) => input.refLogprobs!) : null,
        entropies: has((input) => input.entropies) ? all((input) => input.entropies!) : null,
        advantages: all((input) => input.advantages),
        weights: all((input) => input.weights),
        histories: new Int32Array(0),
        loss: this.#policyLoss,
        ratios: Float64Array.from(this.#ratios.flatMap((ratios) => [...ratios])),
        clipped: this.#clipped,
      },
      this.#config,
    );
  }
}

/** What the loss of a row reads. */
export function lossInput(
  { row, other }: ComparedRow,
  { logprobs, entropies }: { readonly logprobs: Floats; readonly entropies: Floats | null },
): LossInput {
  return {
    newLogprobs: logprobs,
    sampledLogprobs: row.sampledLogprobs,
    precalculatedLogprobs: other.precalculated,
    refLogprobs: other.reference,
    entropies,
    advantages: row.advantages,
    weights: row.weights,
    histories: row.histories,
  };
}
