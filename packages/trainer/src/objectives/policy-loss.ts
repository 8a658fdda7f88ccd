/**
 * The policy-gradient loss of a row in float64: log-probabilities in, loss and ∂loss/∂logprob out. The order is
 * always: ratio → cap → mask → tau → KL term → clip → truncated importance sampling → mean. The entropy bonus is
 * added separately. `policy-objectives.ts` has the maximised term per token.
 */
import { strict as assert } from 'node:assert';
import { importanceRatios, logRatiosToOld } from './importance-ratios.ts';
import type { LossConfig } from './loss-config.ts';
import type { LossInput } from './loss-input.ts';
import type { PolicyToken } from './policy-objective.ts';
import { POLICY_OBJECTIVES } from './policy-objectives.ts';
import { policyMetrics, type PolicyMetrics } from './policy-metrics.ts';
import { gapsToReference, meanGap } from './reference-gaps.ts';

export interface LossResult {
  readonly loss: number;
  /** Excludes the entropy bonus. */
  readonly policyLoss: number;
  /** ∂loss/∂newLogprob, [N]. */
  readonly gradient: Float64Array;
  /** ∂loss/∂entropy, [N]; null without an entropy bonus. */
  readonly entropyGradient: Float64Array | null;
  readonly metrics: PolicyMetrics;
}

/** Totals of a step that each of its rows depends on. */
export interface StepTotals {
  /** Trained tokens of all rows. */
  readonly numTokens: number;
  /** Mean over the step's trained tokens; null without the KL term. */
  readonly meanGap: number | null;
}

export interface RowLoss extends Omit<LossResult, 'metrics'> {
  /** [N] at the configured level, before cap, mask and clip. */
  readonly ratios: Float64Array;
  /** Tokens at a bound of the clip. */
  readonly clipped: { readonly low: number; readonly high: number };
}

/** Added to the number of tokens before dividing by it. */
const COUNT_EPSILON = 1e-6;

/** Loss of a step of one row, with its metrics. */
export function policyLoss(input: LossInput, config: LossConfig): LossResult {
  const step = { numTokens: input.newLogprobs.length, meanGap: meanGap([input], config) };
  const { ratios, clipped, ...result } = rowLoss(input, config, step);
  const metrics = policyMetrics({ ...input, loss: result.policyLoss, ratios, clipped }, config);
  return { ...result, metrics };
}

/**
 * A row's part of its step's loss: the policy's, less the entropy bonus c · Σ w·H / N, if any. The parts add up
 * to the loss of one row with all histories, so packing has no effect.
 *
 * @returns non-finite values for such input: the caller decides
 * @see tau: Kimi K2, arXiv 2507.20534; entropy bonus: A3C, arXiv 1602.01783
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
  const { epsilon, epsilonHigh } = config;
  const low = 1 - epsilon;
  const high = 1 + epsilonHigh;
  const cap = config.maxNegativeAdvantageImportanceSamplingWeight;
  const { gain } = POLICY_OBJECTIVES[config.lossFunction];

  const gradient = new Float64Array(numTokens);
  const pooledGradients = new Float64Array(lengths.length); // [histories] gradient of each token of a history through its pooled ratio
  let policyPart = 0;
  const clipped = { low: 0, high: 0 };
  for (let i = 0; i < numTokens; i++) {
    let ratio = ratios[i]!;
    let isConstant = false; // true if cap or mask cut the ratio off from the policy
    if (cap > 0 && ratio > cap) [ratio, isConstant] = [cap, true];
    if (config.maskProbRatio && !(low < ratio && ratio < high)) [ratio, isConstant] = [0, true];
    const newLogprob = input.newLogprobs[i]!;
    const token: PolicyToken = {
      ratio,
      clippedRatio: Math.min(Math.max(ratio, low), high),
      low,
      high,
      epsilon,
      epsilonHigh,
      newLogprob,
      oldLogprob: newLogprob - logRatios[i]!,
      advantage: advantages[i]!,
      scale: (input.weights[i]! / divisor) * truncation(input, i, config.truncatedImportanceSampling),
    };
    const gained = gain(token);
    policyPart -= gained.value;
    gradient[i] = gradient[i]! - gained.ofLogprob;
    if (gained.clipped !== null) clipped[gained.clipped]++;
    if (isConstant || gained.ofRatio === 0) continue;
    const history = input.histories[i]!;
    gradient[i] = gradient[i]! - gained.ofRatio * ownSlopes[i]!;
    pooledGradients[history] = pooledGradients[history]! - (gained.ofRatio * pooledSlopes[i]!) / lengths[history]!;
  }
  for (let i = 0; i < numTokens; i++) gradient[i] = gradient[i]! + pooledGradients[input.histories[i]!]!;
  const common = { policyLoss: policyPart, gradient, ratios, clipped };
  if (config.entropyCoef === 0) return { ...common, loss: policyPart, entropyGradient: null };
  const { entropies } = input;
  assert(entropies !== null, 'an entropy bonus needs entropies');
  const entropyGradient = Float64Array.from(input.weights, (weight) => (-config.entropyCoef * weight) / divisor);
  let loss = policyPart;
  for (let i = 0; i < numTokens; i++) loss += entropyGradient[i]! * entropies[i]!;
  return { ...common, loss, entropyGradient };
}

/** Adds the terms that pull towards the sampling policy (tau) and the reference (KL), without gradient. */
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

/** min(recomputed / sampled, limit): numerics of trainer to sampler; 1 if off or nothing was recomputed. */
function truncation(input: LossInput, i: number, limit: number): number {
  if (limit === 0 || input.precalculatedLogprobs === null) return 1;
  const sampled = input.sampledLogprobs[i]!;
  return Math.min(
    Math.exp(input.precalculatedLogprobs[i]! - (Number.isNaN(sampled) ? input.newLogprobs[i]! : sampled)),
    limit,
  );
}
