/**
 * Log-probabilities of some fixed tokens under a base model, computed from the file served and trained here.
 * External samplers and trainers are compared with them before use.
 */
export interface FixedScores {
  readonly tokenIds: readonly number[];
  /** Natural logarithms, one per token; null for the first. */
  readonly logprobs: readonly (number | null)[];
}

export interface ScoreDistance {
  /** Mean absolute difference, nats; NaN if a token was not scored. */
  readonly mean: number;
  /** `log-probabilities of 63 fixed tokens differ by 0.012 nats on average` */
  readonly words: string;
}

/**
 * Distance of external scores from the file's.
 * @param found like the reference, or without the first
 */
export function distanceOfScores(
  { logprobs }: FixedScores,
  found: ArrayLike<number | null> & Iterable<number | null>,
): ScoreDistance {
  const expected = logprobs.slice(1);
  const others = Array.from(found).slice(-expected.length);
  const sum = expected.reduce<number>((total, value, at) => total + Math.abs((value ?? NaN) - (others[at] ?? NaN)), 0);
  const mean = others.length === expected.length ? sum / expected.length : NaN;
  return {
    mean,
    words: Number.isNaN(mean)
      ? `some log-probabilities of ${expected.length} fixed tokens are missing`
      : `log-probabilities of ${expected.length} fixed tokens differ by ${mean.toPrecision(2)} nats on average`,
  };
}
