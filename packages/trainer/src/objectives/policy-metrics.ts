import type { LossConfig } from './loss-config.ts';
import type { LossInput } from './loss-input.ts';
import { gapsToReference } from './reference-gaps.ts';

/**
 * Named as in the training API; all values are finite. Metrics of the sampler cover tokens with a sampled
 * log-probability and are absent if there are none; those of entropies are absent if the learner does not report
 * them.
 */
export type PolicyMetrics = Record<string, number>;

/** Reported ratios end at e^80: one absurd token must not turn a chart into infinity. */
const MAX_REPORTED_LOG_RATIO = 80;

/**
 * - `policy_loss` (without an entropy bonus), `entropy` (mean of weight · H, nats)
 * - `clip_fraction` (tokens that the clip acted on, 0–1), of which `clip_fraction_low` at the lower bound,
 *   `clip_fraction_high` at the upper
 * - `ratio_mean`, `ratio_max`: importance ratios at the configured level, before cap, mask and clip
 * - `effective_sample_size`: (Σr)² / Σr² over those ratios, in tokens: the value of N tokens of unequal weight
 * - `probs_corr`: Pearson correlation of sampled and new probabilities, the best single check of tokenisation:
 *   on-policy >= 0.99. Absent if either side is constant.
 * - `kl_sampler` (k3 = r - 1 - log r) and `kl_sampler_k1` (-log r): KL(sampler ‖ policy), r = new / sampled
 * - `logprob_gap_mean`, `_p99`, `_max`: |new - sampled|
 * - `surprisal_excess`: mean of -new - entropy, nats: 0 for tokens drawn from the policy, below it for a sharper
 *   sampler; `surprisal_excess_error`, its standard error
 * - `advantage_mean`: mean of weight · advantage, near 0 if whole groups are in the step
 * - `kl_policy_ref`: mean of new - reference, if there is a reference (sampled - reference with that source of
 *   the KL term), and `kl_policy_ref_k3`, the low-variance form of new against reference, never negative
 *
 * @see Kong, A note on importance sampling using standardized weights (1992), for the effective sample size
 * @see Schulman, Approximating KL divergence, http://joschu.net/blog/kl-approx.html
 */
export function policyMetrics(
  row: LossInput & { loss: number; ratios: Float64Array; clipped: { low: number; high: number } },
  config: Pick<LossConfig, 'klPenaltySource'>,
): PolicyMetrics {
  const numTokens = row.newLogprobs.length;
  if (numTokens === 0) return { policy_loss: row.loss };
  const reported = row.ratios.map((ratio) => Math.min(ratio, Math.exp(MAX_REPORTED_LOG_RATIO)));
  const metrics: PolicyMetrics = {
    policy_loss: row.loss,
    ...(row.entropies === null
      ? {}
      : { entropy: mean(Float64Array.from(row.entropies, (entropy, i) => entropy * row.weights[i]!)) }),
    advantage_mean: mean(Float64Array.from(row.advantages, (advantage, i) => advantage * row.weights[i]!)),
    clip_fraction: (row.clipped.low + row.clipped.high) / numTokens,
    clip_fraction_low: row.clipped.low / numTokens,
    clip_fraction_high: row.clipped.high / numTokens,
    ratio_mean: mean(reported),
    ratio_max: reported.reduce((max, ratio) => Math.max(max, ratio), 0),
    effective_sample_size: effectiveSampleSize(reported),
    ...samplerMetrics(row),
  };
  if (row.refLogprobs !== null) {
    const { refLogprobs } = row;
    const gaps = Float64Array.from(row.newLogprobs, (logprob, i) => logprob - refLogprobs[i]!);
    metrics['kl_policy_ref'] = mean(gapsToReference(row, config));
    metrics['kl_policy_ref_k3'] = mean(gaps.map((gap) => k3(-gap)));
  }
  return metrics;
}

/** r - 1 - log r, given log r. */
const k3 = (logRatio: number): number => Math.expm1(Math.min(logRatio, MAX_REPORTED_LOG_RATIO)) - logRatio;

/** 0 if all ratios underflow to 0. */
function effectiveSampleSize(ratios: Float64Array): number {
  let sum = 0;
  let squares = 0;
  for (const ratio of ratios) {
    sum += ratio;
    squares += ratio * ratio;
  }
  return squares > 0 ? (sum * sum) / squares : 0;
}

function samplerMetrics({ newLogprobs, sampledLogprobs, entropies }: LossInput): PolicyMetrics {
  const known = Array.from(sampledLogprobs.keys()).filter((i) => !Number.isNaN(sampledLogprobs[i]));
  if (known.length === 0) return {};
  const logRatios = Float64Array.from(known, (i) => newLogprobs[i]! - sampledLogprobs[i]!);
  const gaps = logRatios.map(Math.abs).sort();
  const metrics: PolicyMetrics = {
    kl_sampler: mean(logRatios.map(k3)),
    kl_sampler_k1: -mean(logRatios),
    logprob_gap_mean: mean(gaps),
    logprob_gap_p99: gaps[Math.ceil(0.99 * gaps.length) - 1]!,
    logprob_gap_max: gaps.at(-1)!,
    ...(entropies === null ? {} : surprisal(Float64Array.from(known, (i) => -newLogprobs[i]! - entropies[i]!))),
  };
  const correlation = pearson(
    Float64Array.from(known, (i) => Math.exp(sampledLogprobs[i]!)),
    Float64Array.from(known, (i) => Math.exp(newLogprobs[i]!)),
  );
  if (correlation !== null) metrics['probs_corr'] = correlation;
  return metrics;
}

/**
 * A token's surprisal minus its expectation has mean 0 and is uncorrelated between tokens if the policy drew
 * them.
 */
function surprisal(excesses: Float64Array): PolicyMetrics {
  const excess = mean(excesses);
  const variance = mean(excesses.map((value) => (value - excess) ** 2));
  return { surprisal_excess: excess, surprisal_excess_error: Math.sqrt(variance / excesses.length) };
}

/** Null if one side is constant, which its rounded mean would hide. */
function pearson(xs: Float64Array, ys: Float64Array): number | null {
  if ([xs, ys].some((values) => values.every((value) => value === values[0]))) return null;
  const meanX = mean(xs);
  const meanY = mean(ys);
  let covariance = 0;
  let varianceX = 0;
  let varianceY = 0;
  xs.forEach((x, i) => {
    const dx = x - meanX;
    const dy = ys[i]! - meanY;
    covariance += dx * dy;
    varianceX += dx * dx;
    varianceY += dy * dy;
  });
  const scale = Math.sqrt(varianceX) * Math.sqrt(varianceY);
  return scale > 0 ? Math.min(1, Math.max(-1, covariance / scale)) : null;
}

function mean(values: Float64Array): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}
