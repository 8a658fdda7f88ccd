import { useMemo } from 'react';
import type { SeriesObject } from '@trainyard/sdk';

import { LineChart } from '../charts/line-chart.tsx';
import { lineOf, lineWithDeviation } from '../charts/series-lines.ts';
import { Empty } from '../components/empty.tsx';

/** The reward over steps, with the spread within groups around it, and that of the validation split. */
export function RewardChart({ series }: { series: readonly SeriesObject[] }) {
  const lines = useMemo(() => {
    const of = (name: string) => series.find((one) => one.name === name && one.last.length > 0);
    const [reward, deviation, val] = ['train/reward', 'train/reward_std_dev', 'val/reward'].map(of);
    return [
      ...(reward === undefined ? [] : [lineWithDeviation(reward, deviation, 1, 'reward')]),
      ...(val === undefined ? [] : [lineOf(val, 2, 'val')]),
    ];
  }, [series]);
  if (lines.length === 0) return <Empty title="No reward yet">The curve begins with the first training job.</Empty>;
  return <LineChart label="Reward over steps" lines={lines} height={280} />;
}
