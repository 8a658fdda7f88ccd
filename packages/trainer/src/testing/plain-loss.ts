import { strict as assert } from 'node:assert';
import type { LossConfig } from '../objectives/loss-config.ts';
import type { LossInput } from '../objectives/loss-input.ts';
import type { LossFunction } from '../objectives/policy-objectives.ts';

/**
 * Reference for `policyLoss`, from the papers: token by token, and stop-gradient parts computed from `still`
 * instead of `live`. Its numeric derivative at live = still is the gradient.
 */
export function plainLoss(
  live: readonly number[],
  still: readonly number[],
  row: LossInput,
  config: LossConfig,
): number {
  const losses = plainTokenLosses(live, still, row, config);
  return losses.reduce((total, loss, i) => total + row.weights[i]! * loss, 0) / (live.length + 1e-6);
}

/** Losses before any weight, [N]. */
export function plainTokenLosses(
  live: readonly number[],
  still: readonly number[],
  row: LossInput,
  config: LossConfig,
): number[] {
  const { epsilon, epsilonHigh } = config;
  const clip = (ratio: number): number =>
    ratio < 1 - epsilon ? 1 - epsilon : ratio > 1 + epsilonHigh ? 1 + epsilonHigh : ratio;
  const gap = (logprobs: readonly number[], i: number): number => {
    const old = (row.precalculatedLogprobs ?? row.sampledLogprobs)[i]!;
    return Number.isNaN(old) ? logprobs[i]! - still[i]! : logprobs[i]! - old;
  };
  const held = (logRatio: number): number => Math.exp(Math.max(-20, Math.min(20, logRatio)));
  const ratio = (logprobs: readonly number[], i: number): number => {
    const members = [...row.histories.keys()].filter((j) => row.histories[j] === row.histories[i]);
    const own = held(gap(logprobs, i));
    const pooled = held(members.reduce((total, j) => total + gap(logprobs, j), 0) / members.length);
    const levels = {
      token: own,
      sequence: pooled,
      average: (own + pooled) / 2,
      geometric_average: Math.sqrt(own * pooled),
    };
    let result = levels[config.importanceSamplingLevel];
    const cap = config.maxNegativeAdvantageImportanceSamplingWeight;
    if (cap !== 0) result = Math.min(result, cap);
    if (config.maskProbRatio && (result <= 1 - epsilon || result >= 1 + epsilonHigh)) result = 0;
    return result;
  };
  const distance = (i: number): number => {
    const sampled = row.sampledLogprobs[i]!;
    const from = config.klPenaltySource === 'sample' && !Number.isNaN(sampled) ? sampled : still[i]!;
    return from - row.refLogprobs![i]!;
  };
  const distances =
    config.klPenaltyCoef > 0 && row.refLogprobs !== null ? live.map((_, i) => distance(i)) : live.map(() => 0);
  const meanDistance = distances.reduce((a, b) => a + b, 0) / distances.length;

  return [...live.keys()].map((i) => {
    let advantage = row.advantages[i]!;
    advantage -= config.kimiK2Tau * gap(still, i);
    advantage += config.klPenaltyCoef * (meanDistance - distances[i]!);
    const ppo = -Math.min(ratio(live, i) * advantage, clip(ratio(live, i)) * advantage);
    const cispo = -clip(ratio(still, i)) * advantage * live[i]!;
    const losses: Partial<Record<LossFunction, number>> = { ppo, cispo };
    const loss = losses[config.lossFunction];
    assert(loss !== undefined, `${config.lossFunction} has a plain version of its own`);
    if (config.truncatedImportanceSampling === 0 || row.precalculatedLogprobs === null) return loss;
    const sampled = row.sampledLogprobs[i]!;
    const mismatch = Math.exp(row.precalculatedLogprobs[i]! - (Number.isNaN(sampled) ? still[i]! : sampled));
    return loss * Math.min(mismatch, config.truncatedImportanceSampling);
  });
}
