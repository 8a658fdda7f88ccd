import './usage-page.css';
import { useQuery } from '@tanstack/react-query';
import { useSearchParams } from 'wouter';
import type { UsageGroupObject } from '@trainyard/sdk';

import { usageQuery } from '../api/usage.ts';
import { download, quoted } from '../charts/csv.ts';
import { ActionButton } from '../components/actions/action-button.tsx';
import { Button } from '../components/button.tsx';
import { type Column, DataTable } from '../components/data-table.tsx';
import { EmptyUntilTrained, TRAINS_BY_EXAMPLE } from '../components/empty-until-trained.tsx';
import { Fault } from '../components/fault.tsx';
import { formatCount } from '../components/numbers.ts';
import { Page } from '../components/page.tsx';
import { queryClient } from '../api/query-client.ts';
import { DayBars } from './day-bars.tsx';
import { type UsageRow, usageRows } from './usage-rows.ts';
import { shownName } from '../components/shown-name.ts';

const SPANS = [7, 30, 90] as const;
const ALL_PARTS = ['day', 'project', 'key', 'model', 'kind'] as const;

/** Tokens of the last days: by day, by project and model, and by key; sampling and training apart. */
export function UsagePage() {
  const [parameters, setParameters] = useSearchParams();
  const days = SPANS.find((span) => String(span) === parameters.get('days')) ?? 30;
  const { data, error } = useQuery(usageQuery(['day', 'kind'], days));
  const [trained, sampled] = [true, false].map((is) =>
    (data?.data ?? []).filter(({ kind }) => (kind === 'training') === is),
  );
  return (
    <Page
      title="Usage"
      actions={
        <>
          {SPANS.map((span) => (
            <Button
              key={span}
              look="quiet"
              aria-pressed={span === days}
              onClick={() => setParameters({ days: String(span) }, { replace: true })}
            >
              {span} days
            </Button>
          ))}
          <ActionButton onAct={() => downloadAll(days)}>CSV</ActionButton>
        </>
      }
    >
      {error === null ? null : <Fault error={error} />}
      {data === undefined ? null : data.data.length === 0 ? (
        <EmptyUntilTrained title="No usage in these days" command={TRAINS_BY_EXAMPLE}>
          Every request and every training job counts its tokens here, by key and project.
        </EmptyUntilTrained>
      ) : (
        <>
          <div className="usage-charts">
            <DayBars title="Sampling" words={['Prompt', 'Completion']} groups={sampled!} days={days} />
            <DayBars title="Training" words={['Context', 'Trained']} groups={trained!} days={days} />
          </div>
          <ModelUsage days={days} />
          <KeyUsage days={days} />
        </>
      )}
    </Page>
  );
}

function ModelUsage({ days }: { days: number }) {
  const { data } = useQuery(usageQuery(['project', 'model', 'kind'], days));
  const rows = usageRows(data?.data ?? [], ({ project, model }) => [project ?? projectOf(model ?? ''), model ?? '']);
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

/** Project of a trained model, for requests that name none. */
function projectOf(model: string): string {
  const parts = model.split('/');
  return parts.length === 3 ? parts[1]! : '(none)';
}

function KeyUsage({ days }: { days: number }) {
  const { data } = useQuery(usageQuery(['key', 'kind'], days));
  const rows = usageRows(data?.data ?? [], ({ key_name: name, key_id: id }) => [name ?? id ?? '', id ?? '']);
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

/** Downloads all counts by day, project, key, model and kind. */
async function downloadAll(days: number): Promise<void> {
  const { data } = await queryClient.fetchQuery(usageQuery(ALL_PARTS, days));
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
