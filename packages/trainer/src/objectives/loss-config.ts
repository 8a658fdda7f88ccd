import type { NamesOfPart, PlainSettings, TRAINING_FIELDS } from '@trainyard/protocol/fields';
import type { LossFunction } from './policy-objectives.ts';

type Fields = typeof TRAINING_FIELDS;

export type ImportanceSamplingLevel = LossConfig['importanceSamplingLevel'];
export type KlPenaltySource = LossConfig['klPenaltySource'];

/** The settings that the policy-gradient loss reads: the part `loss` of `TRAINING_FIELDS`, and what its objective decides. */
export interface LossConfig extends Pick<PlainSettings<Fields>, NamesOfPart<Fields, 'loss'>> {
  /** Which objective of `policy-objectives.ts`; default `'cispo'`. */
  readonly lossFunction: LossFunction;
  /** Lower bound of the objective, which says what it holds: a ratio at 1 - epsilon, for most. Default: the objective's. */
  readonly epsilon: number;
  /** Upper bound, a ratio at 1 + epsilonHigh, for most. Default: the objective's, or epsilon. */
  readonly epsilonHigh: number;
}
