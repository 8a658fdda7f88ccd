import './usage-page.css';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { UsageGroupObject } from '@trainyard/sdk';

import { type UsagePart, usageQuery } from '../api/usage.ts';
import { Button } from '../components/button.tsx';
import { type Column, DataTable } from '../components/data-table.tsx';
import { EmptyUntilTrained, TRAINS_BY_EXAMPLE } from '../components/empty-until-trained.tsx';
import { Fault } from '../components/fault.tsx';
import { formatCount } from '../components/numbers.ts';
import { Page } from '../components/page.tsx';
import { DayBars } from './day-bars.tsx';

const SPANS = [7, 30, 90] as const;

/** Tokens of the last days by day, project, key and model. */
export function UsagePage() {
  const [days, setDays] = useState<number>(30);
  const { data, error } = useQuery(usageQuery('day', days));
  return (
    <Page
      title="Usage"
      actions={SPANS.map((span) => (
        <Button key={span} look="quiet" aria-pressed={span === days} onClick={() => setDays(span)}>
          {span} days
        </Button>
      ))}
    >
      {error === null ? null : <Fault error={error} />}
      {data === undefined ? null : data.data.length === 0 ? (
        <EmptyUntilTrained title="No usage in these days" command={TRAINS_BY_EXAMPLE}>
          Every request and every training job counts its tokens here, by key and project.
        </EmptyUntilTrained>
      ) : (
        <>
          <DayBars groups={data.data} days={days} />
          <div className="usage-tables">
            <UsageTable title="By project" part="project" nameOf={({ project }) => project ?? '(none)'} days={days} />
            <UsageTable title="By key" part="key" nameOf={keyName} days={days} />
            <UsageTable title="By model" part="model" nameOf={({ model }) => model ?? ''} days={days} />
            <UsageTable title="By kind" part="kind" nameOf={({ kind }) => kind ?? ''} days={days} />
          </div>
        </>
      )}
    </Page>
  );
}

function keyName({ key_name: name, key_id: id }: UsageGroupObject): string {
  return name ?? id ?? '';
}

function UsageTable({
  title,
  part,
  nameOf,
  days,
}: {
  title: string;
  part: UsagePart;
  nameOf: (group: UsageGroupObject) => string;
  days: number;
}) {
  const { data } = useQuery(usageQuery(part, days));
  const rows = (data?.data ?? []).toSorted((first, second) => tokensOf(second) - tokensOf(first));
  const columns: Column<UsageGroupObject>[] = [
    { name: title.slice(3, 4).toUpperCase() + title.slice(4), cell: (group) => nameOf(group) },
    ...COUNTS,
  ];
  return (
    <section className="usage-table">
      <h2>{title}</h2>
      <DataTable
        caption={title}
        columns={columns}
        rows={rows}
        keyOf={(group) => `${group.key_id ?? ''} ${nameOf(group)}`}
      />
    </section>
  );
}

function tokensOf({ prompt_tokens: prompt, completion_tokens: completion }: UsageGroupObject): number {
  return prompt + completion;
}

const COUNTS: readonly Column<UsageGroupObject>[] = [
  { name: 'Requests', isNumber: true, cell: ({ num_requests: count }) => formatCount(count) },
  { name: 'Prompt', isNumber: true, cell: ({ prompt_tokens: count }) => formatCount(count) },
  { name: 'Completion', isNumber: true, cell: ({ completion_tokens: count }) => formatCount(count) },
];
