import type { NamesOfPart, PlainSettings, TRAINING_FIELDS } from '@trainyard/protocol/fields';
import type { LossFunction } from './policy-objectives.ts';

type Fields = typeof TRAINING_FIELDS;

export type ImportanceSamplingLevel = LossConfig['importanceSamplingLevel'];
export type KlPenaltySource = LossConfig['klPenaltySource'];

/** The part `loss` of `TRAINING_FIELDS`, and the defaults of its objective. */
export interface LossConfig extends Pick<PlainSettings<Fields>, NamesOfPart<Fields, 'loss'>> {
  /** Objective of `policy-objectives.ts`; default `'cispo'`. */
  readonly lossFunction: LossFunction;
  /** Lower bound, as defined by the objective: a ratio of 1 - epsilon for most. Default: the objective's. */
  readonly epsilon: number;
  /** Upper bound, a ratio of 1 + epsilonHigh for most. Default: the objective's, or epsilon. */
  readonly epsilonHigh: number;
}
