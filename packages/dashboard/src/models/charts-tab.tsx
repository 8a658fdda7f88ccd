import './charts-tab.css';
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { ModelDetailsObject } from '@trainyard/sdk';

import { metricsQuery, seriesQuery } from '../api/models.ts';
import { LineChart } from '../charts/line-chart.tsx';
import { lineOf } from '../charts/series-lines.ts';
import { Fault } from '../components/fault.tsx';

/** Every metric over steps. */
export function ChartsTab({ model }: { model: ModelDetailsObject }) {
  const { data: metrics } = useQuery(metricsQuery(model.id));
  const names = useMemo(() => (metrics?.data ?? []).map(({ name }) => name).slice(0, 64), [metrics]);
  const { data, error } = useQuery(seriesQuery(model.id, names));
  return (
    <>
      {error === null ? null : <Fault error={error} />}
      <div className="chart-grid">
        {data?.data.map((series) => (
          <figure key={series.name}>
            <figcaption>{series.name}</figcaption>
            <LineChart label={series.name} lines={[lineOf(series, 1)]} syncKey="charts" />
          </figure>
        ))}
      </div>
    </>
  );
}
