/** Rollouts whose rewards lie in `[from, to)`; the last one of a histogram has its `to` too. */
export interface RewardBin {
  readonly from: number;
  readonly to: number;
  readonly count: number;
  /** True if all of its rewards are `from`. */
  readonly isPoint: boolean;
}

const MAX_BINS = 24;

/**
 * Bins for a histogram: few distinct rewards, such as 0 and 1, have a bin each; many are divided into bins of
 * equal width.
 */
export function rewardBins(rewards: readonly number[], maxBins: number = MAX_BINS): RewardBin[] {
  const counts = new Map<number, number>();
  for (const reward of rewards) counts.set(reward, (counts.get(reward) ?? 0) + 1);
  const values = [...counts.keys()].toSorted((first, second) => first - second);
  if (values.length === 0) return [];
  if (values.length <= Math.min(12, maxBins))
    return values.map((value) => ({ from: value, to: value, count: counts.get(value)!, isPoint: true }));
  const least = values[0]!;
  const width = (values.at(-1)! - least) / maxBins;
  if (!Number.isFinite(width)) return halves(values, counts);
  const bins = Array.from({ length: maxBins }, (_, index) => ({
    from: least + index * width,
    to: index === maxBins - 1 ? values.at(-1)! : least + (index + 1) * width,
    count: 0,
    isPoint: false,
  }));
  for (const [reward, count] of counts)
    bins[Math.min(maxBins - 1, Math.floor((reward - least) / width))]!.count += count;
  return bins;
}

/** Returns true if a reward belongs to the bin. */
export function isInBin(reward: number, { from, to, isPoint }: RewardBin, isLast: boolean): boolean {
  if (isPoint) return reward === from;
  return reward >= from && (isLast ? reward <= to : reward < to);
}

/** Two bins, for rewards whose difference overflows. */
function halves(values: readonly number[], counts: ReadonlyMap<number, number>): RewardBin[] {
  const count = (isWanted: (value: number) => boolean) =>
    values.reduce((sum, value) => sum + (isWanted(value) ? counts.get(value)! : 0), 0);
  return [
    { from: values[0]!, to: 0, count: count((value) => value < 0), isPoint: false },
    { from: 0, to: values.at(-1)!, count: count((value) => value >= 0), isPoint: false },
  ];
}
