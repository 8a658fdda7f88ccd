/**
 * The policy-gradient losses, as plain functions in float64: log-probabilities in, loss and ∂loss/∂logprob out.
 *
 * Order matters and is the same for every setting: ratio → cap → mask → tau → KL term → clip → truncated importance sampling → mean.
 * The entropy bonus stands beside all that.
 */
import type { TrainingConfig } from '../config/training-config.ts';
import { lossMetrics, type LossMetrics } from './policy-metrics.ts';
import { gapsToReference, meanGap } from './reference-gaps.ts';

/** The settings that the loss reads. */
export type LossConfig = Pick<
  TrainingConfig,
  | 'lossFunction'
  | 'epsilon'
  | 'epsilonHigh'
  | 'importanceSamplingLevel'
  | 'maxNegativeAdvantageImportanceSamplingWeight'
  | 'maskProbRatio'
  | 'kimiK2Tau'
  | 'truncatedImportanceSampling'
  | 'klPenaltyCoef'
  | 'klPenaltySource'
  | 'entropyCoef'
>;

/** Floats of either width: the model computes in 32 bits, tests in 64. */
export type Floats = Float32Array | Float64Array;

/** The trained tokens of one row, N of them; every array is [N]. */
export interface LossInput {
  /** Under the policy being trained. */
  readonly newLogprobs: Floats;
  /** Under the sampling policy; NaN where a token came without: its ratio is 1 and it keeps a gradient. */
  readonly sampledLogprobs: Floats;
  /** Recomputed with the weights the job starts from; null: the sampled ones are the old ones. */
  readonly precalculatedLogprobs: Floats | null;
  /** Under the KL reference; null without a KL term. */
  readonly refLogprobs: Floats | null;
  /** Of the distributions behind `newLogprobs`, in nats. */
  readonly entropies: Floats;
  readonly advantages: Floats;
  readonly weights: Floats;
  /** Which history of the row a token belongs to, 0-based; ratios of the other levels are pooled over it. */
  readonly histories: Int32Array;
}

export interface LossResult {
  readonly loss: number;
  /** Without the entropy bonus. */
  readonly policyLoss: number;
  /** ∂loss/∂newLogprob, [N]. */
  readonly gradient: Float64Array;
  /** ∂loss/∂entropy, [N]; null without an entropy bonus. */
  readonly entropyGradient: Float64Array | null;
  readonly metrics: LossMetrics;
}

/** What a row has to know of the other rows of its gradient step. */
export interface StepTotals {
  /** Trained tokens of all rows. */
  readonly numTokens: number;
  /** Mean of the KL term's gaps over them; null without that term. */
  readonly meanGap: number | null;
}

/** A row's part of the loss of its step. */
export interface RowLoss extends Omit<LossResult, 'metrics'> {
  /** [N] at the configured level, before cap, mask and clip. */
  readonly ratios: Float64Array;
  /** Tokens that the clip acted on, at either bound. */
  readonly clipped: { readonly low: number; readonly high: number };
}

/** Added to the number of tokens before dividing by it. */
const COUNT_EPSILON = 1e-6;

/** Log ratios are held to ±20 before exp, as in ART: beyond it a ratio says nothing but that something is wrong, and has no slope. */
const MAX_LOG_RATIO = 20;

/** The loss of a gradient step of one row, with what it says about itself. */
export function policyLoss(input: LossInput, config: LossConfig): LossResult {
  const step = { numTokens: input.newLogprobs.length, meanGap: meanGap([input], config) };
  const { ratios, clipped, ...result } = rowLoss(input, config, step);
  const metrics = lossMetrics({ ...input, loss: result.policyLoss, ratios, clipped }, config);
  return { ...result, metrics };
}

/**
 * A row's part of its step's loss: the policy's, less the entropy bonus c · Σ w·H / N, where there is one. The parts of all rows add up to
 * what one row of all their histories would have: nothing depends on how histories are packed.
 *
 * @returns Non-finite values where the input makes them so: the caller decides.
 * @see PPO, arXiv 1707.06347; CISPO, MiniMax-M1, arXiv 2506.13585; sequence level: GSPO, arXiv 2507.18071; tau: Kimi K2, arXiv 2507.20534;
 * entropy bonus: A3C, arXiv 1602.01783
 */
export function rowLoss(input: LossInput, config: LossConfig, step: StepTotals): RowLoss {
  const numTokens = input.newLogprobs.length;
  const divisor = step.numTokens + COUNT_EPSILON;
  const logRatios = logRatiosToOld(input);
  const { ratios, ownSlopes, pooledSlopes, lengths } = importanceRatios(
    logRatios,
    input.histories,
    config.importanceSamplingLevel,
  );
  const advantages = shapedAdvantages(input, logRatios, step.meanGap, config);
  const low = 1 - config.epsilon;
  const high = 1 + config.epsilonHigh;
  const cap = config.maxNegativeAdvantageImportanceSamplingWeight;

  const gradient = new Float64Array(numTokens);
  const pooledGradients = new Float64Array(lengths.length); // [histories] what each token of a history gets from its pooled ratio
  let policyPart = 0;
  const clipped = { low: 0, high: 0 };
  for (let i = 0; i < numTokens; i++) {
    let ratio = ratios[i]!;
    let isConstant = false; // whether cap or mask cut the ratio off from the policy
    if (cap > 0 && ratio > cap) [ratio, isConstant] = [cap, true];
    if (config.maskProbRatio && !(low < ratio && ratio < high)) [ratio, isConstant] = [0, true];
    const clippedRatio = Math.min(Math.max(ratio, low), high);
    const isOutside = ratio < low || ratio > high;
    const advantage = advantages[i]!;
    const scale = (input.weights[i]! / divisor) * truncation(input, i, config.truncatedImportanceSampling);

    if (config.lossFunction === 'cispo') {
      policyPart -= scale * clippedRatio * advantage * input.newLogprobs[i]!;
      gradient[i] = gradient[i]! - scale * clippedRatio * advantage;
      if (isOutside) clipped[ratio < low ? 'low' : 'high']++;
      continue;
    }
    const plain = ratio * advantage;
    const bounded = clippedRatio * advantage;
    policyPart -= scale * Math.min(plain, bounded);
    if (isOutside && !(plain < bounded)) {
      clipped[ratio < low ? 'low' : 'high']++; // the clipped branch decides: no gradient
    } else if (!isConstant) {
      const history = input.histories[i]!;
      gradient[i] = gradient[i]! - scale * advantage * ownSlopes[i]!;
      pooledGradients[history] = pooledGradients[history]! - (scale * advantage * pooledSlopes[i]!) / lengths[history]!;
    }
  }
  for (let i = 0; i < numTokens; i++) gradient[i] = gradient[i]! + pooledGradients[input.histories[i]!]!;
  const common = { policyLoss: policyPart, gradient, ratios, clipped };
  if (config.entropyCoef === 0) return { ...common, loss: policyPart, entropyGradient: null };
  const entropyGradient = Float64Array.from(input.weights, (weight) => (-config.entropyCoef * weight) / divisor);
  let loss = policyPart;
  for (let i = 0; i < numTokens; i++) loss += entropyGradient[i]! * input.entropies[i]!;
  return { ...common, loss, entropyGradient };
}

/** log(new / old); 0 where no old log-probability is known. */
function logRatiosToOld({ newLogprobs, sampledLogprobs, precalculatedLogprobs }: LossInput): Float64Array {
  const oldLogprobs = precalculatedLogprobs ?? sampledLogprobs;
  return Float64Array.from(newLogprobs, (logprob, i) => (Number.isNaN(oldLogprobs[i]) ? 0 : logprob - oldLogprobs[i]!));
}

interface ImportanceRatios {
  /** [N] */
  readonly ratios: Float64Array;
  /** [N] ∂ratio/∂(the token's own log ratio). */
  readonly ownSlopes: Float64Array;
  /** [N] ∂ratio/∂(mean log ratio of the token's history). */
  readonly pooledSlopes: Float64Array;
  /** Trained tokens of each history. */
  readonly lengths: readonly number[];
}

/** Importance ratios at the configured level. The pooled ratio is exp of the mean over a history's trained tokens, all its turns together. */
function importanceRatios(
  logRatios: Float64Array,
  histories: Int32Array,
  level: TrainingConfig['importanceSamplingLevel'],
): ImportanceRatios {
  const sums: number[] = [];
  const lengths: number[] = [];
  logRatios.forEach((logRatio, i) => {
    const history = histories[i]!;
    sums[history] = (sums[history] ?? 0) + logRatio;
    lengths[history] = (lengths[history] ?? 0) + 1;
  });
  const held = (logRatio: number): number => Math.min(Math.max(logRatio, -MAX_LOG_RATIO), MAX_LOG_RATIO);
  const slopeOf = (logRatio: number): number => (Math.abs(logRatio) > MAX_LOG_RATIO ? 0 : Math.exp(logRatio));
  const means = logRatios.map((_, i) => sums[histories[i]!]! / lengths[histories[i]!]!);
  const own = logRatios.map((logRatio) => Math.exp(held(logRatio)));
  const pooled = means.map((logRatio) => Math.exp(held(logRatio)));
  const ownSlope = logRatios.map(slopeOf);
  const pooledSlope = means.map(slopeOf);
  const none = new Float64Array(logRatios.length);
  const half = (values: Float64Array): Float64Array => values.map((value) => value / 2);
  switch (level) {
    case 'token':
      return { ratios: own, ownSlopes: ownSlope, pooledSlopes: none, lengths };
    case 'sequence':
      return { ratios: pooled, ownSlopes: none, pooledSlopes: pooledSlope, lengths };
    case 'average':
      return {
        ratios: own.map((ratio, i) => (ratio + pooled[i]!) / 2),
        ownSlopes: half(ownSlope),
        pooledSlopes: half(pooledSlope),
        lengths,
      };
    case 'geometric_average': {
      const ratios = own.map((ratio, i) => Math.sqrt(ratio) * Math.sqrt(pooled[i]!));
      const slopes = (live: Float64Array): Float64Array => ratios.map((ratio, i) => (live[i] === 0 ? 0 : ratio / 2));
      return { ratios, ownSlopes: slopes(ownSlope), pooledSlopes: slopes(pooledSlope), lengths };
    }
    default:
      return level satisfies never;
  }
}

/** Advantages after the terms that pull towards the sampling policy (tau) and the reference (KL); both without gradient. */
function shapedAdvantages(
  input: LossInput,
  logRatios: Float64Array,
  mean: number | null,
  config: LossConfig,
): Float64Array {
  const advantages = Float64Array.from(
    input.advantages,
    (advantage, i) => advantage - config.kimiK2Tau * logRatios[i]!,
  );
  if (mean === null) return advantages;
  const gaps = gapsToReference(input, config);
  return advantages.map((advantage, i) => advantage + config.klPenaltyCoef * (mean - gaps[i]!));
}

/** min(recomputed / sampled, limit), what the trainer's numerics differ from the sampler's; 1 when off or nothing was recomputed. */
function truncation(input: LossInput, i: number, limit: number): number {
  if (limit === 0 || input.precalculatedLogprobs === null) return 1;
  const sampled = input.sampledLogprobs[i]!;
  return Math.min(
    Math.exp(input.precalculatedLogprobs[i]! - (Number.isNaN(sampled) ? input.newLogprobs[i]! : sampled)),
    limit,
  );
}
