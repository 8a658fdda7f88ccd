import type { LossFunction } from './policy-objectives.ts';

export type ImportanceSamplingLevel = 'token' | 'sequence' | 'average' | 'geometric_average';
export type KlPenaltySource = 'current_learner' | 'sample';

/** The settings that the policy-gradient loss reads. */
export interface LossConfig {
  /** Which objective of `policy-objectives.ts`; default `'cispo'`. */
  readonly lossFunction: LossFunction;
  /** Lower bound of the objective, which says what it holds: a ratio at 1 - epsilon, for most. Default: the objective's. */
  readonly epsilon: number;
  /** Upper bound, a ratio at 1 + epsilonHigh, for most. Default: the objective's, or epsilon. */
  readonly epsilonHigh: number;
  /** Over what the importance ratio is taken; default `'token'`. */
  readonly importanceSamplingLevel: ImportanceSamplingLevel;
  /** Cap on the importance ratio of every token, whatever the sign of its advantage, despite the name. 0 (default): no cap. */
  readonly maxNegativeAdvantageImportanceSamplingWeight: number;
  /** Sets ratios outside (1 - epsilon, 1 + epsilonHigh) to 0, before the clip: cispo with epsilon < 1 lifts them to 1 - epsilon again. */
  readonly maskProbRatio: boolean;
  /** Pulls towards the sampling policy: advantage -= tau · log ratio. 0 (default): off. */
  readonly kimiK2Tau: number;
  /**
   * Cap C on a factor min(recomputed / sampled, C) of each token's loss. 0 (default): off. Needs `precalculateLogprobs`: otherwise the
   * ratio is that to the sampler already, and the factor would count it twice.
   */
  readonly truncatedImportanceSampling: number;
  /** Strength of the zero-mean KL term inside the advantages. 0 (default): off. */
  readonly klPenaltyCoef: number;
  /** Whether the KL term measures the policy being trained or the sampled log-probabilities. */
  readonly klPenaltySource: KlPenaltySource;
  /** Strength of the entropy bonus: loss -= c · entropy. 0 (default): off. */
  readonly entropyCoef: number;
}
