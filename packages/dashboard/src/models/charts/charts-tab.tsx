import './charts-tab.css';
import { useQueries, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { ModelDetailsObject } from '@trainyard/sdk';

import { metricsQuery, modelQuery } from '../../api/models.ts';
import { Empty } from '../../components/empty.tsx';
import { Fault } from '../../components/fault.tsx';
import { chartGroupsOf } from './chart-specs.ts';
import { ChartToolbar } from './chart-toolbar.tsx';
import { searchCharts } from './search-charts.ts';
import { MetricChart } from './metric-chart.tsx';
import { useChartView } from './use-chart-view.ts';
import { shownName } from '../../components/shown-name.ts';
import { Link } from 'wouter';

/** All metrics of a model over its steps, with up to three other models for comparison. */
export function ChartsTab({ model }: { model: ModelDetailsObject }) {
  const [view, setView] = useChartView();
  const { data: metrics, error } = useQuery(metricsQuery(model.id));
  const others = useQueries({ queries: view.withModels.map((id) => modelQuery(id)) });
  const all = useMemo(() => chartGroupsOf((metrics?.data ?? []).map(({ name }) => name)), [metrics]);
  const { search, hidden } = view;
  const groups = useMemo(() => searchCharts(all, search, hidden), [all, search, hidden]);
  const models = [model, ...others.flatMap(({ data }) => data ?? [])];
  if (metrics?.data.length === 0) return <NoMetrics model={model} />;
  return (
    <>
      {error === null ? null : <Fault error={error} />}
      <ChartToolbar model={model} view={view} onChange={setView} />
      {all.length > 0 && groups.length === 0 ? <p role="status">No chart matches.</p> : null}
      {groups.map(({ title, charts }) => (
        <section key={title} className="chart-group">
          <h2>{shownName(title)}</h2>
          <div className="chart-grid">
            {charts.map((spec) => (
              <MetricChart key={spec.title} models={models} spec={spec} view={view} onView={setView} />
            ))}
          </div>
        </section>
      ))}
    </>
  );
}

/** Reason that a model has no metrics. */
function NoMetrics({ model: { project, name, last_job: last } }: { model: ModelDetailsObject }) {
  if (last === null || last.status === 'succeeded')
    return (
      <Empty title="No metrics yet" command={`trainyard sft FILE --model ${project}/${name}`}>
        They start with the first gradient step of a training job.
      </Empty>
    );
  return (
    <Empty title="No metrics">
      No job of this model has succeeded. Values of the last one, which{' '}
      {last.status === 'failed' ? 'failed' : 'was cancelled'}, are on{' '}
      <Link href={`/jobs/${encodeURIComponent(last.id)}`}>its page</Link>.
    </Empty>
  );
}
