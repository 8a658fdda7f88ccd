/** Distances to the KL reference, token by token. */
import type { LossConfig } from './loss-config.ts';
import type { LossInput } from './loss-input.ts';

type Compared = Pick<LossInput, 'newLogprobs' | 'sampledLogprobs' | 'refLogprobs'>;

/** [N] log(policy / reference), with the policy of `klPenaltySource`. */
export function gapsToReference(
  { newLogprobs, sampledLogprobs, refLogprobs }: Compared,
  { klPenaltySource }: Pick<LossConfig, 'klPenaltySource'>,
): Float64Array {
  return Float64Array.from(newLogprobs, (logprob, i) => {
    const isSampled = klPenaltySource === 'sample' && !Number.isNaN(sampledLogprobs[i]);
    return (isSampled ? sampledLogprobs[i]! : logprob) - refLogprobs![i]!;
  });
}

/** All rows of a step; null without the KL term. */
export function meanGap(
  rows: readonly Compared[],
  config: Pick<LossConfig, 'klPenaltySource' | 'klPenaltyCoef'>,
): number | null {
  if (config.klPenaltyCoef === 0 || rows.some(({ refLogprobs }) => refLogprobs === null)) return null;
  const gaps = rows.map((row) => gapsToReference(row, config));
  const numTokens = gaps.reduce((total, { length }) => total + length, 0);
  let mean = 0;
  for (const ofRow of gaps) for (const gap of ofRow) mean += gap / numTokens;
  return mean;
}
