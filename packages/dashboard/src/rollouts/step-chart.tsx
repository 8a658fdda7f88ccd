import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { useSearchParams } from 'wouter';

import { metricsQuery, seriesQuery } from '../api/models.ts';
import { ChartCard } from '../charts/chart-card.tsx';
import { lineOf } from '../charts/series-lines.ts';
import { FilterSelect } from '../components/lists/filter-select.tsx';
import { shownName } from '../components/shown-name.ts';

const HEIGHT = 110;
/** Metrics of rollouts, apart from those of their own. */
const OF_ROLLOUTS = ['train/reward', 'train/reward_std_dev', 'train/exception_rate'];

/** A metric over the steps, next to the rollouts of one of them; a point leads to its rollouts. */
export function StepChart({
  modelId,
  split,
  onStep,
}: {
  modelId: string;
  split: string;
  onStep: (step: number) => void;
}) {
  const [parameters] = useSearchParams();
  const { data: metrics } = useQuery(metricsQuery(modelId));
  const names = useMemo(() => namesOf(metrics?.data.map(({ name }) => name) ?? [], split), [metrics, split]);
  const wanted = parameters.get('metric');
  const name = wanted !== null && names.includes(wanted) ? wanted : names[0];
  const { data } = useQuery(seriesQuery(modelId, name === undefined ? [] : [name]));
  const lines = useMemo(
    () => (data?.data ?? []).filter(({ last }) => last.length > 0).map((series) => lineOf(series, 1)),
    [data],
  );
  if (name === undefined) return null;
  return (
    <div className="step-chart">
      <FilterSelect
        name="metric"
        label="Over steps"
        options={names.map((other) => [other, shownName(other)] as const)}
        fallback={name}
      />
      <ChartCard title={name} xName="step" lines={lines} height={HEIGHT} level="h2" onPick={onStep} />
    </div>
  );
}

/** Metrics of the rollouts of a split, the reward first. */
function namesOf(all: readonly string[], split: string): string[] {
  const own =
    split === 'train'
      ? all.filter((name) => OF_ROLLOUTS.includes(name) || name.startsWith('train/rollouts/'))
      : all.filter((name) => name.startsWith(`${split}/`));
  const reward = `${split}/reward`;
  return own.includes(reward) ? [reward, ...own.filter((name) => name !== reward)] : own;
}
