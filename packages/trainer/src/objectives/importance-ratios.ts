import type { LossConfig } from './loss-config.ts';
import type { LossInput } from './loss-input.ts';

/** Clamps log ratios to ±20 before exp, as in ART: beyond it a ratio only shows a fault. */
const MAX_LOG_RATIO = 20;

/** log(new / old), or 0 if the old one is unknown. */
export function logRatiosToOld({ newLogprobs, sampledLogprobs, precalculatedLogprobs }: LossInput): Float64Array {
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

/**
 * Ratios at the configured level. The pooled ratio is exp of the mean over a history's trained tokens, all its
 * turns together.
 *
 * @see sequence level: GSPO, arXiv 2507.18071
 */
export function importanceRatios(
  logRatios: Float64Array,
  histories: Int32Array,
  level: LossConfig['importanceSamplingLevel'],
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
