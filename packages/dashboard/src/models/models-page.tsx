import './models-page.css';
import { useInfiniteQuery } from '@tanstack/react-query';
import type { ModelDetailsObject } from '@trainyard/sdk';
import { Link } from 'wouter';

import { modelsQuery } from '../api/models.ts';
import { Button } from '../components/button.tsx';
import { type Column, DataTable } from '../components/data-table.tsx';
import { EmptyUntilTrained, TRAINS_BY_EXAMPLE } from '../components/empty-until-trained.tsx';
import { Fault } from '../components/fault.tsx';
import { formatCount, formatValue } from '../components/numbers.ts';
import { Page } from '../components/page.tsx';
import { StatusDot } from '../components/status-dot.tsx';
import { Ago } from '../components/time.tsx';
import { shownName } from '../components/shown-name.ts';

/** All trained models, newest first. */
export function ModelsPage() {
  const { data, error, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(modelsQuery);
  const models = data?.pages.flatMap((page) => page.data);
  return (
    <Page title="Models">
      {error === null ? null : <Fault error={error} />}
      {models === undefined ? null : models.length === 0 ? (
        <EmptyUntilTrained
          title="No models yet"
          demo="The demo trains a small task in a few minutes, and you can watch its reward rise."
          command={TRAINS_BY_EXAMPLE}
        >
          A model appears here with its first job.
        </EmptyUntilTrained>
      ) : (
        <DataTable caption="Models" columns={COLUMNS} rows={models} keyOf={({ id }) => id} />
      )}
      {hasNextPage ? (
        <div>
          <Button onClick={() => void fetchNextPage()} isBusy={isFetchingNextPage}>
            More
          </Button>
        </div>
      ) : null}
    </Page>
  );
}

const COLUMNS: readonly Column<ModelDetailsObject>[] = [
  {
    name: 'Model',
    cell: (model) => (
      <span className="model-name">
        <Link href={`/models/${encodeURIComponent(model.id)}`}>{shownName(model.name)}</Link>
        <small className="soft">{shownName(`${model.entity}/${model.project}`)}</small>
      </span>
    ),
  },
  { name: 'Now', cell: (model) => <ModelState model={model} /> },
  { name: 'Step', isNumber: true, cell: ({ latest_step: step }) => step ?? '–' },
  { name: 'Reward', isNumber: true, cell: ({ reward }) => (reward === null ? '–' : formatValue(reward.value)) },
  { name: 'Best', isNumber: true, cell: ({ best }) => (best === null ? '–' : `step ${best.step}`) },
  { name: 'Val', isNumber: true, cell: ({ metrics }) => metricCell(metrics, 'val/reward') },
  {
    name: 'Gradient steps',
    isNumber: true,
    cell: ({ num_gradient_steps: number }) => formatCount(number),
  },
  { name: 'Base model', cell: ({ base_model: base }) => <span className="soft">{base}</span> },
  { name: 'Made', cell: ({ created_at: at }) => <Ago at={at} /> },
];

function metricCell(metrics: Readonly<Record<string, number>>, name: string): string {
  const value = metrics[name];
  return value === undefined ? '–' : formatValue(value);
}

function ModelState({ model }: { model: ModelDetailsObject }) {
  const { live_jobs: jobs, last_job: last } = model;
  return (
    <span className="model-states">
      {stateOf(model)}
      {last?.status === 'failed' && jobs.running === 0 ? (
        <Link href={`/jobs/${encodeURIComponent(last.id)}`} title={last.error_message ?? undefined}>
          <StatusDot tone="bad">last job failed</StatusDot>
        </Link>
      ) : null}
    </span>
  );
}

function stateOf({ live_jobs: jobs, is_served: isServed, last_job: last }: ModelDetailsObject) {
  if (jobs.running > 0) return <StatusDot tone="live">training</StatusDot>;
  if (jobs.queued > 0) return <StatusDot tone="warn">queued</StatusDot>;
  if (jobs.paused > 0) return <StatusDot tone="warn">paused</StatusDot>;
  if (!isServed) return <StatusDot tone="bad">not served</StatusDot>;
  return last?.status === 'failed' ? null : <StatusDot tone="good">served</StatusDot>;
}
