import './usage-page.css';
import { useQuery } from '@tanstack/react-query';
import { useSearchParams } from 'wouter';
import type { UsageGroupObject } from '@trainyard/sdk';

import { type UsagePart, usageQuery } from '../api/usage.ts';
import { download, quoted } from '../charts/csv.ts';
import { ActionButton } from '../components/actions/action-button.tsx';
import { Button } from '../components/button.tsx';
import { type Column, DataTable } from '../components/data-table.tsx';
import { EmptyUntilTrained, TRAINS_BY_EXAMPLE } from '../components/empty-until-trained.tsx';
import { Fault } from '../components/fault.tsx';
import { changed } from '../components/lists/changed.ts';
import { FilterSelect, FilterText } from '../components/lists/filter-select.tsx';
import { ProjectFilter } from '../components/lists/project-filter.tsx';
import { Notice } from '../components/notice.tsx';
import { formatCount } from '../components/numbers.ts';
import { Page } from '../components/page.tsx';
import { queryClient } from '../api/query-client.ts';
import { DayBars } from './day-bars.tsx';
import { filteredParts, isShown, projectOf, type UsageFilter, usageFilterOf } from './usage-filter.ts';
import { type UsageRow, usageRows } from './usage-rows.ts';
import { shownName } from '../components/shown-name.ts';

const SPANS = [7, 30, 90] as const;
const ALL_PARTS = ['day', 'project', 'key', 'model', 'kind'] as const;

/** Tokens of the last days: by day, by project and model, and by key; sampling and training apart. */
export function UsagePage() {
  const [parameters, setParameters] = useSearchParams();
  const days = SPANS.find((span) => String(span) === parameters.get('days')) ?? 30;
  const filter = usageFilterOf(parameters);
  const { data, groups, error } = useUsage(['day', 'kind'], days, filter);
  const [trained, sampled] = [true, false].map((is) => groups.filter(({ kind }) => (kind === 'training') === is));
  const hasFilter = Object.values(filter).some((text) => text !== '');
  const choose = (span: number) =>
    setParameters((before) => changed(before, { days: String(span) }), { replace: true });
  return (
    <Page
      title="Usage"
      actions={
        <>
          {SPANS.map((span) => (
            <Button key={span} look="quiet" aria-pressed={span === days} onClick={() => choose(span)}>
              {span} days
            </Button>
          ))}
          <ActionButton onAct={() => downloadAll(days, filter)}>CSV</ActionButton>
        </>
      }
    >
      <UsageFilters days={days} filter={filter} />
      {error === null ? null : <Fault error={error} />}
      {data?.has_more === true ? (
        <Notice tone="warn">There are more than 10,000 rows, and only these are counted. Choose fewer days.</Notice>
      ) : null}
      {data === undefined ? null : groups.length > 0 ? (
        <>
          <div className="usage-charts">
            <DayBars title="Sampling" words={['Prompt', 'Completion']} groups={sampled!} days={days} />
            <DayBars title="Training" words={['Context', 'Trained']} groups={trained!} days={days} />
          </div>
          <ModelUsage days={days} filter={filter} />
          <KeyUsage days={days} filter={filter} />
        </>
      ) : hasFilter ? (
        <p className="soft">No usage matches these filters.</p>
      ) : (
        <EmptyUntilTrained title="No usage in these days" command={TRAINS_BY_EXAMPLE}>
          Every request and every training job counts its tokens here, by key and project.
        </EmptyUntilTrained>
      )}
    </Page>
  );
}

/** Usage grouped by parts, of which the filter leaves some. */
function useUsage(parts: readonly UsagePart[], days: number, filter: UsageFilter) {
  const { data, error } = useQuery(usageQuery(filteredParts(parts, filter), days));
  return { data, error, groups: (data?.data ?? []).filter((group) => isShown(group, filter)) };
}

/** Choices of the projects and keys with usage in these days, and of those in the address. */
function UsageFilters({ days, filter }: { days: number; filter: UsageFilter }) {
  const { data: ofModels } = useQuery(usageQuery(['kind', 'model', 'project'], days));
  const { data: ofKeys } = useQuery(usageQuery(['key', 'kind'], days));
  const keys = new Map((ofKeys?.data ?? []).map(({ key_id: id, key_name: name }) => [id ?? '', name ?? id ?? '']));
  if (filter.key !== '' && !keys.has(filter.key)) keys.set(filter.key, filter.key);
  const options = [...keys].toSorted(([, first], [, second]) => (first < second ? -1 : 1));
  return (
    <div className="filters">
      <ProjectFilter projects={(ofModels?.data ?? []).map(projectOf)} />
      <FilterSelect
        name="key"
        label="Key"
        options={[['', 'all'], ...options.map(([id, name]) => [id, shownName(name)] as const)]}
      />
      <FilterText name="model" label="Search models" />
    </div>
  );
}

function ModelUsage({ days, filter }: { days: number; filter: UsageFilter }) {
  const { groups } = useUsage(['kind', 'model', 'project'], days, filter);
  const rows = usageRows(groups, (group) => [projectOf(group), group.model ?? '']);
  return (
    <UsageTable
      title="By project and model"
      rows={rows}
      columns={[
        { name: 'Project', cell: ({ names }) => shownName(names[0]!) },
        {
          name: 'Model',
          cell: ({ names, numSteps }) => (
            <>
              {shownName(names[1]!)}
              {numSteps > 1 ? <small className="soft"> {numSteps} steps</small> : null}
            </>
          ),
        },
      ]}
    />
  );
}

function KeyUsage({ days, filter }: { days: number; filter: UsageFilter }) {
  const { groups } = useUsage(['key', 'kind'], days, filter);
  const rows = usageRows(groups, ({ key_name: name, key_id: id }) => [name ?? id ?? '', id ?? '']);
  return (
    <UsageTable title="By key" rows={rows} columns={[{ name: 'Key', cell: ({ names }) => shownName(names[0]!) }]} />
  );
}

function UsageTable({
  title,
  rows,
  columns,
}: {
  title: string;
  rows: readonly UsageRow[];
  columns: readonly Column<UsageRow>[];
}) {
  return (
    <section className="usage-table">
      <h2>{title}</h2>
      <DataTable caption={title} columns={[...columns, ...COUNTS]} rows={rows} keyOf={({ key }) => key} />
    </section>
  );
}

const count = (name: string, of: (row: UsageRow) => number): Column<UsageRow> => ({
  name,
  isNumber: true,
  cell: (row) => (of(row) === 0 ? '–' : formatCount(of(row))),
});
const COUNTS: readonly Column<UsageRow>[] = [
  count('Requests', ({ numRequests }) => numRequests),
  count('Prompt', ({ promptTokens }) => promptTokens),
  count('Completion', ({ completionTokens }) => completionTokens),
  count('Jobs', ({ numJobs }) => numJobs),
  count('Trained', ({ trainedTokens }) => trainedTokens),
  count('Context', ({ contextTokens }) => contextTokens),
];

/** Downloads the counts of the filter by day, project, key, model and kind. */
async function downloadAll(days: number, filter: UsageFilter): Promise<void> {
  const { data: all } = await queryClient.fetchQuery(usageQuery(ALL_PARTS, days));
  const data = all.filter((group) => isShown(group, filter));
  const head = 'day,project,key,model,kind,requests,prompt_tokens,completion_tokens\n';
  const line = (group: UsageGroupObject) =>
    [
      ...[group.day, group.project, group.key_name ?? group.key_id, group.model, group.kind].map((text) =>
        quoted(text ?? ''),
      ),
      group.num_requests,
      group.prompt_tokens,
      group.completion_tokens,
    ].join(',');
  download(`usage-${days}-days.csv`, head + data.map((group) => `${line(group)}\n`).join(''));
}
