import type { TrainingRow } from '../packing/pack.ts';
import type { LossConfig } from './loss-config.ts';
import type { Floats, LossInput } from './loss-input.ts';
import { rowLoss, type StepTotals } from './policy-loss.ts';
import { policyMetrics, type PolicyMetrics } from './policy-metrics.ts';
import { meanGap } from './reference-gaps.ts';
import type { RowGradient, RowOutput, StepObjective } from './step-objective.ts';

/** Values under other weights than those being trained, [N] each. */
export interface OtherLogprobs {
  /** Values under the job's initial weights; null: the sampled ones are the old ones. */
  readonly precalculated: Float32Array | null;
  /** Values under the KL reference; null: no KL term. */
  readonly reference: Float32Array | null;
}

/** Inputs of a row's loss other than the trained policy. */
export interface ComparedRow {
  readonly row: TrainingRow;
  readonly other: OtherLogprobs;
}

/** Keeps its rows' results for the metrics. */
export class PolicyStepObjective implements StepObjective {
  readonly #rows: readonly ComparedRow[];
  readonly #config: LossConfig;
  readonly #numTokens: number;
  readonly #meanGap: number | null;
  readonly #inputs: LossInput[] = [];
  readonly #ratios: Float64Array[] = [];
  readonly #clipped = { low: 0, high: 0 };
  #policyLoss = 0;
  #numTokensWithGradient = 0;

  /** @param meanGapOfStep null without a KL term, or if all rows come at once: then it is computed from them */
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

  rowGradients(outputs: readonly RowOutput[]): readonly RowGradient[] {
    const first = this.#inputs.length;
    const inputs = outputs.map((output, i) => lossInput(this.#rows[first + i]!, output));
    const step = { numTokens: this.#numTokens, meanGap: this.#meanGap ?? meanGap(inputs, this.#config) };
    return inputs.map((input) => this.#rowGradient(input, step));
  }

  #rowGradient(input: LossInput, step: StepTotals): RowGradient {
    const { loss, gradient, entropyGradient, policyLoss, ratios, clipped } = rowLoss(input, this.#config, step);
    this.#inputs.push(input);
    this.#ratios.push(ratios);
    this.#policyLoss += policyLoss;
    this.#clipped.low += clipped.low;
    this.#clipped.high += clipped.high;
    this.#numTokensWithGradient += gradient.reduce(
      (count, value, i) => count + Number(value !== 0 || (entropyGradient?.[i] ?? 0) !== 0),
      0,
    );
    return { loss, gradient, entropyGradient };
  }

  /** Values under the step's initial weights, [N] each. */
  get newValues(): readonly { readonly logprobs: Floats; readonly entropies: Floats | null }[] {
    return this.#inputs.map(({ newLogprobs, entropies }) => ({ logprobs: newLogprobs, entropies }));
  }

  /** Equal to those of one row with all the step's histories. */
  metrics(): PolicyMetrics {
    const inputs = this.#inputs;
    const all = (of: (input: LossInput) => Floats): Float64Array =>
      Float64Array.from(inputs.flatMap((input) => Array.from(of(input))));
    const has = (of: (input: LossInput) => Floats | null): boolean => inputs.every((input) => of(input) !== null);
    const metrics = policyMetrics(
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
    return { ...metrics, num_tokens_with_gradient: this.#numTokensWithGradient };
  }
}

export function lossInput({ row, other }: ComparedRow, { logprobs, entropies }: RowOutput): LossInput {
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
