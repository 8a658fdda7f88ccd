import '../components/field.css';
import './compare-page.css';
import { useQueries } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { ModelDetailsObject } from '@trainyard/sdk';
import { Link, useSearchParams } from 'wouter';

import { useAllModels } from '../api/all-models.ts';
import { newestJobQuery } from '../api/jobs.ts';
import { metricsQuery, seriesQuery } from '../api/models.ts';
import { ChartCard } from '../charts/chart-card.tsx';
import { type Column, DataTable } from '../components/data-table.tsx';
import { Empty } from '../components/empty.tsx';
import { Fault } from '../components/fault.tsx';
import { FilterSelect, FilterText } from '../components/lists/filter-select.tsx';
import { matchingModels, tagsOf } from '../components/lists/model-filter.ts';
import { TagFilter } from '../components/lists/tag-filter.tsx';
import { ProjectFilter } from '../components/lists/project-filter.tsx';
import { formatScore } from '../components/numbers.ts';
import { Page } from '../components/page.tsx';
import { type ComparedSetting, differingSettings, type RunSettings } from './compared-settings.ts';
import { comparedLines, groupsBy } from './seed-groups.ts';
import { shownName } from '../components/shown-name.ts';

const MAX_RUNS = 12;
const DEFAULT_METRIC = 'train/reward';

/** Up to twelve runs: one metric as lines or as mean and band by seed or tag, and the settings that differ. */
export function ComparePage() {
  const [parameters] = useSearchParams();
  const { models: all, isRead, error } = useAllModels();
  const read = (name: string) => parameters.get(name) ?? '';
  const current = useMemo(() => matchingModels(all, {}), [all]);
  const tags = parameters.getAll('tag');
  const ids = parameters.getAll('model');
  const isNamed = (model: ModelDetailsObject) => ids.includes(model.id);
  // Models chosen by id may be archived ones.
  const found =
    ids.length > 0
      ? all.filter(isNamed)
      : matchingModels(current, { search: read('q'), project: read('project'), tags });
  const runs = found.slice(0, MAX_RUNS);
  return (
    <Page title="Compare" path={<Link href="/models">Models</Link>}>
      {error === null ? null : <Fault error={error} />}
      <div className="filters">
        <FilterText name="q" label="Search runs" />
        <ProjectFilter projects={current.map((model) => model.project)} />
        <TagFilter tags={tagsOf(current)} />
        <span className="soft" role="status">
          {found.length > MAX_RUNS ? `the newest ${MAX_RUNS} of ${found.length} runs` : `${found.length} runs`}
        </span>
      </div>
      {!isRead ? null : runs.length === 0 ? (
        <Empty title="No runs match">Search for other words, or choose other filters.</Empty>
      ) : (
        <Comparison runs={runs} />
      )}
    </Page>
  );
}

function Comparison({ runs }: { runs: readonly ModelDetailsObject[] }) {
  const [parameters] = useSearchParams();
  const tags = useMemo(() => parameters.getAll('tag').filter(Boolean), [parameters]);
  // Several tags are several sweeps.
  const by = parameters.get('by') ?? (tags.length > 1 ? 'tag' : 'run');
  const metrics = useQueries({
    queries: runs.map(({ id }) => metricsQuery(id)),
    combine: (answers) =>
      [...new Set(answers.flatMap(({ data }) => data?.data.map(({ name }) => name) ?? []))].toSorted(),
  });
  const metric = parameters.get('metric') ?? (metrics.includes(DEFAULT_METRIC) ? DEFAULT_METRIC : (metrics[0] ?? ''));
  const series = useQueries({
    queries: runs.map(({ id }) => ({ ...seriesQuery(id, [metric]), enabled: metric !== '' })),
    combine: (answers) => answers.map(({ data }) => data?.data[0] ?? null),
  });
  const points = useMemo(
    () =>
      runs.flatMap((run, index) => {
        const one = series[index];
        return one == null || one.last.length === 0
          ? []
          : [{ id: run.id, name: shownName(run.name), tags: run.tags, x: one.last, y: one.mean }];
      }),
    [runs, series],
  );
  const lines = useMemo(() => comparedLines(points, groupsBy(by, tags)), [points, by, tags]);
  const baseline = runs.find(({ id }) => id === parameters.get('baseline')) ?? null;
  const lastOf = (id: string) => points.find((one) => one.id === id)?.y.at(-1) ?? null;
  return (
    <>
      <div className="filters">
        <FilterSelect name="metric" label="Metric" options={withDefault(metrics, metric)} fallback={metric} />
        <FilterSelect
          name="by"
          label="Lines"
          fallback={by}
          options={[
            ['run', 'one per run'],
            ['seed', 'mean and band over seeds'],
            ['tag', 'mean and band of a tag'],
          ]}
        />
        <FilterSelect
          name="baseline"
          label="Baseline"
          options={[['', 'none'], ...runs.map(({ id, name }) => [id, shownName(name)] as const)]}
        />
      </div>
      <ChartCard title={metric} level="h2" xName="step" height={300} lines={lines} />
      <RunTable runs={runs} baseline={baseline} lastOf={lastOf} />
      <SettingTable runs={runs} />
    </>
  );
}

/** Last values, with their differences from the baseline. */
function RunTable({
  runs,
  baseline,
  lastOf,
}: {
  runs: readonly ModelDetailsObject[];
  baseline: ModelDetailsObject | null;
  lastOf: (id: string) => number | null;
}) {
  const base = baseline === null ? null : lastOf(baseline.id);
  const columns: Column<ModelDetailsObject>[] = [
    {
      name: 'Run',
      cell: ({ id, name }) => <Link href={`/models/${encodeURIComponent(id)}`}>{shownName(name)}</Link>,
    },
    { name: 'Step', isNumber: true, cell: ({ latest_step: step }) => step ?? '–' },
    { name: 'Last', isNumber: true, cell: ({ id }) => scoreOf(lastOf(id)) },
    ...(base === null
      ? []
      : [
          {
            name: 'To the baseline',
            isNumber: true,
            cell: ({ id }: ModelDetailsObject) => {
              const last = lastOf(id);
              if (id === baseline?.id) return <span className="soft">baseline</span>;
              return last === null ? '–' : `${last < base ? '−' : '+'}${formatScore(Math.abs(last - base))}`;
            },
          },
        ]),
    {
      name: 'Best',
      isNumber: true,
      cell: ({ best }) =>
        best === null ? (
          '–'
        ) : (
          <>
            {formatScore(best.value)}{' '}
            <small className="soft">
              {best.metric}, step {best.step}
            </small>
          </>
        ),
    },
  ];
  return (
    <section className="compare-section">
      <h2>Runs</h2>
      <DataTable caption="Runs" columns={columns} rows={runs} keyOf={({ id }) => id} />
    </section>
  );
}

/** Settings of the last job of each run that are not the same for all. */
function SettingTable({ runs }: { runs: readonly ModelDetailsObject[] }) {
  const settings = useQueries({
    queries: runs.map(({ id }) => newestJobQuery(id)),
    combine: (answers) => answers.map(({ data }) => data?.data[0]?.config ?? {}),
  });
  const differing = useMemo(
    () =>
      differingSettings(
        runs.map((run, index): RunSettings => ({
          ...settings[index],
          base_model: run.base_model,
          'lora.rank': run.lora.rank,
          'lora.alpha': run.lora.alpha,
          'lora.targets': run.lora.targets.join(' '),
        })),
      ),
    [runs, settings],
  );
  const columns: Column<ComparedSetting>[] = [
    { name: 'Setting', cell: ({ name }) => <code>{shownName(name)}</code> },
    ...runs.map((run, index) => ({
      name: shownName(run.name),
      cell: ({ values }: ComparedSetting) => <span className="mono">{shownName(values[index] ?? '–')}</span>,
    })),
  ];
  return (
    <section className="compare-section">
      <h2>Settings that differ</h2>
      {differing.length === 0 ? (
        <p className="soft">All settings of their last jobs are the same.</p>
      ) : (
        <DataTable caption="Settings that differ" columns={columns} rows={differing} keyOf={({ name }) => name} />
      )}
    </section>
  );
}

function withDefault(names: readonly string[], metric: string): (readonly [string, string])[] {
  return [...new Set([...(metric === '' ? [] : [metric]), ...names])].toSorted().map((name) => [name, name] as const);
}

function scoreOf(value: number | null): string {
  return value === null ? '–' : formatScore(value);
}
