import { useMemo } from 'react';
import type { SeriesObject } from '@trainyard/sdk';
import { useLocation } from 'wouter';

import { ChartCard } from '../charts/chart-card.tsx';
import type { ChartLine } from '../charts/chart-line.ts';
import { lineOf, lineWithDeviation } from '../charts/series-lines.ts';
import { EmptyUntilTrained } from '../components/empty-until-trained.tsx';
import { rolloutsHref } from './charts/rollouts-href.ts';

/** The reward over steps with the spread within groups, and the rewards of logged splits. */
export function RewardChart({
  modelId,
  series,
}: {
  modelId: string;
  /** null while loading: the empty state is shown only once it is certain. */
  series: readonly SeriesObject[] | null;
}) {
  const [, navigate] = useLocation();
  const lines = useMemo(() => linesOf(series ?? []), [series]);
  return (
    <ChartCard
      title="Reward"
      level="h2"
      xName="step"
      lines={lines}
      height={220}
      empty={
        series === null ? null : (
          <EmptyUntilTrained title="No reward yet" demo="The demo shows how a program creates one.">
            The curve starts with the first training job on rollouts.
          </EmptyUntilTrained>
        )
      }
      onPick={(step) => navigate(rolloutsHref(modelId, 'train/reward', step))}
    />
  );
}

function linesOf(all: readonly SeriesObject[]): ChartLine[] {
  const series = all.filter(({ last, discarded }) => last.length + discarded.at.length > 0);
  const reward = series.find(({ name }) => name === 'train/reward');
  const deviation = series.find(({ name }) => name === 'train/reward_std_dev');
  const splits = series.filter((one) => one !== reward && one !== deviation).slice(0, 3);
  return [
    ...(reward === undefined ? [] : [lineWithDeviation(reward, deviation, 1, 'reward')]),
    ...splits.map((one, index) => lineOf(one, (index + 2) as ChartLine['color'], one.name.replace('/reward', ''))),
  ];
}
