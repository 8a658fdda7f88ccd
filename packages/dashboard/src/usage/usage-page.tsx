import './usage-page.css';
import { useQuery } from '@tanstack/react-query';
import { useSearchParams } from 'wouter';
import type { UsageGroupObject } from '@trainyard/sdk';

import { allUsage, type UsageFilter, usageQuery } from '../api/usage.ts';
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
import { DayBars } from './day-bars.tsx';
import { keyLabels, projectOf, usageFilterOf } from './usage-filter.ts';
import { type UsageRow, usageRows } from './usage-rows.ts';
import { shownName } from '../components/shown-name.ts';

const SPANS = [7, 30, 90] as const;
const ALL_PARTS = ['day', 'project', 'key', 'model', 'kind'] as const;

/** Tokens of the last days: by day, by project and model, and by key; sampling and training apart. */
export function UsagePage() {
  const [parameters, setParameters] = useSearchParams();
  const days = SPANS.find((span) => String(span) === parameters.get('days')) ?? 30;
  const filter = usageFilterOf(parameters);
  const { data, error } = useQuery(usageQuery({ ...filter, by: ['day', 'kind'] }, days));
  const groups = data?.data ?? [];
  const [trained, sampled] = [true, false].map((is) => groups.filter(({ kind }) => (kind === 'training') === is));
  const hasFilter = Object.keys(filter).length > 0;
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

/** Choices of the projects and keys with usage in these days, and of those in the address. */
function UsageFilters({ days, filter }: { days: number; filter: UsageFilter }) {
  const { data: projects } = useQuery(usageQuery({ by: 'project' }, days));
  const { data: ofKeys } = useQuery(usageQuery({ by: 'key' }, days));
  const keys = keyLabels(ofKeys?.data ?? []);
  if (filter.key !== undefined && !keys.has(filter.key)) keys.set(filter.key, filter.key);
  const options = [...keys].toSorted(([, first], [, second]) => (first < second ? -1 : 1));
  return (
    <div className="filters">
      <ProjectFilter projects={(projects?.data ?? []).map(projectOf)} />
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
  // Without the kind, so that a step with chats and completions counts once.
  const of = (kind: NonNullable<UsageFilter['kind']>) =>
    usageQuery({ ...filter, by: ['model', 'project'], fold_steps: true, kind }, days);
  const { data: sampled } = useQuery(of(['chat', 'completion']));
  const { data: trained } = useQuery(of('training'));
  const groups = [
    ...(sampled?.data ?? []),
    ...(trained?.data ?? []).map((group) => ({ ...group, kind: 'training' as const })),
  ];
  const rows = usageRows(groups, (group) => [projectOf(group), group.model ?? '']);
  const isCut = sampled?.has_more === true || trained?.has_more === true;
  return (
    <UsageTable
      title="By project and model"
      note={isCut ? 'Only the first 10,000 models are listed. The sums above count all.' : null}
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
  const { data } = useQuery(usageQuery({ ...filter, by: ['key', 'kind'] }, days));
  const labels = keyLabels(data?.data ?? []);
  const rows = usageRows(data?.data ?? [], ({ key_id: id = '' }) => [labels.get(id) ?? id, id]);
  return (
    <UsageTable title="By key" rows={rows} columns={[{ name: 'Key', cell: ({ names }) => shownName(names[0]!) }]} />
  );
}

function UsageTable({
  title,
  note = null,
  rows,
  columns,
}: {
  title: string;
  note?: string | null;
  rows: readonly UsageRow[];
  columns: readonly Column<UsageRow>[];
}) {
  return (
    <section className="usage-table">
      <h2>{title}</h2>
      {note === null ? null : <Notice tone="warn">{note}</Notice>}
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
  const data = await allUsage({ ...filter, by: [...ALL_PARTS] }, days);
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
