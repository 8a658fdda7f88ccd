import '../components/field.css';
import './models-page.css';
import { useInfiniteQuery } from '@tanstack/react-query';
import { type Dispatch, type SetStateAction, useEffect, useMemo, useState } from 'react';
import type { ModelDetailsObject } from '@trainyard/sdk';
import { Link, useSearchParams } from 'wouter';

import { deleteModel, modelsQuery } from '../api/models.ts';
import { useMorePages } from '../api/more-pages.ts';
import { ConfirmButton } from '../components/actions/confirm-button.tsx';
import { CutName } from '../components/lists/cut-name.tsx';
import { Empty } from '../components/empty.tsx';
import { EmptyUntilTrained, TRAINS_BY_EXAMPLE } from '../components/empty-until-trained.tsx';
import { Fault } from '../components/fault.tsx';
import { FilterSelect, FilterText } from '../components/lists/filter-select.tsx';
import { ProjectFilter } from '../components/lists/project-filter.tsx';
import { type LongColumn, LongTable } from '../components/long-table.tsx';
import { formatCount, formatScore } from '../components/numbers.ts';
import { Page } from '../components/page.tsx';
import { StatusDot } from '../components/status-dot.tsx';
import { Ago } from '../components/time.tsx';
import { ModelCurve } from './model-curve.tsx';
import { MODEL_ORDERS, orderedModels } from './model-order.ts';
import { shownName } from '../components/shown-name.ts';

/** Maximum number of models loaded for the search. */
const MAX_MODELS = 5_000;

/** All trained models: search, project, order, last values, and deletion of several. */
export function ModelsPage() {
  const list = useInfiniteQuery(modelsQuery);
  const { data, error, hasNextPage } = list;
  const more = useMorePages(list);
  const models = useMemo(() => data?.pages.flatMap((page) => page.data), [data]);
  // Search and order need all models.
  const wantsMore = hasNextPage && (models?.length ?? 0) < MAX_MODELS;
  useEffect(() => {
    if (wantsMore) more();
  }, [wantsMore, more]);
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
        <ModelList models={models} />
      )}
    </Page>
  );
}

function ModelList({ models }: { models: readonly ModelDetailsObject[] }) {
  const [parameters] = useSearchParams();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const read = (name: string) => parameters.get(name) ?? '';
  const [search, project, order] = [read('q'), read('project'), read('sort')];
  const shown = useMemo(() => orderedModels(models, { search, project, order }), [models, search, project, order]);
  const columns = useMemo(() => columnsFor(models, chosen, setChosen), [models, chosen]);
  const doomed = shown.filter(({ id }) => chosen.has(id));
  return (
    <>
      <div className="filters">
        <FilterText name="q" label="Search models" />
        <ProjectFilter projects={models.map((model) => model.project)} />
        <FilterSelect name="sort" label="Order" options={MODEL_ORDERS} />
        <span className="soft" role="status">
          {shown.length === models.length
            ? formatCount(models.length)
            : `${formatCount(shown.length)} of ${formatCount(models.length)}`}
        </span>
        {shown.length < 2 ? null : (
          <Link className="button" href={compareHref(doomed, { search, project })}>
            {doomed.length > 1 ? `Compare ${doomed.length}` : 'Compare'}
          </Link>
        )}
        {doomed.length === 0 ? null : (
          <ConfirmButton
            label={`Delete ${doomed.length}`}
            name={`Delete ${doomed.length} chosen models`}
            look="danger"
            question={doomed.length === 1 ? `Delete ${doomed[0]!.name}?` : `Delete ${doomed.length} models?`}
            explanation="Deletes their checkpoints with their files, their metrics and their rollouts for good, and cancels their jobs."
            onConfirm={async () => {
              for (const { id } of doomed) await deleteModel(id);
              setChosen(new Set());
            }}
          />
        )}
      </div>
      {shown.length === 0 ? (
        <Empty title="No models match">Search for other words, or choose another project.</Empty>
      ) : (
        <LongTable
          caption="Models"
          columns={columns}
          rows={shown}
          keyOf={({ id }) => id}
          rowHeight={48}
          minWidth={860}
        />
      )}
    </>
  );
}

/** Comparison of the chosen models, or of those that the filter shows. */
function compareHref(chosen: readonly ModelDetailsObject[], filter: { search: string; project: string }): string {
  const query =
    chosen.length > 1
      ? chosen.map(({ id }) => ['model', id])
      : [
          ['q', filter.search],
          ['project', filter.project],
        ].filter(([, value]) => value !== '');
  return `/compare?${new URLSearchParams(query)}`;
}

/** A column with one value for all models says nothing, so the base model is shown only if there are several. */
function columnsFor(
  models: readonly ModelDetailsObject[],
  chosen: ReadonlySet<string>,
  onChoose: Dispatch<SetStateAction<ReadonlySet<string>>>,
): LongColumn<ModelDetailsObject>[] {
  const hasBases = new Set(models.map(({ base_model: base }) => base)).size > 1;
  const hasVal = models.some(({ metrics }) => metrics['val/reward'] !== undefined);
  return [
    {
      name: 'Chosen',
      isNameHidden: true,
      width: '18px',
      cell: ({ id, name }) => (
        <input
          type="checkbox"
          aria-label={`Choose ${shownName(name)}`}
          checked={chosen.has(id)}
          onChange={({ target }) =>
            onChoose((before) => {
              const after = new Set(before);
              if (target.checked) after.add(id);
              else after.delete(id);
              return after;
            })
          }
        />
      ),
    },
    {
      name: 'Model',
      width: 'minmax(220px, 4fr)',
      cell: ({ id, entity, project, name }) => (
        <span className="model-name">
          <Link href={`/models/${encodeURIComponent(id)}`}>
            <CutName text={shownName(name)} />
          </Link>
          <small className="cut soft">{shownName(`${entity}/${project}`)}</small>
        </span>
      ),
    },
    { name: 'Now', width: '108px', cell: (model) => <ModelState model={model} /> },
    { name: 'Step', width: '44px', isNumber: true, cell: ({ latest_step: step }) => step ?? '–' },
    { name: 'Curve', isNameHidden: true, width: '88px', cell: (model) => <ModelCurve model={model} /> },
    {
      name: 'Last',
      width: '92px',
      isNumber: true,
      cell: ({ reward, metrics }) =>
        reward !== null ? (
          <span title="Reward">{formatScore(reward.value)}</span>
        ) : metrics['train/loss'] === undefined ? (
          '–'
        ) : (
          <span title="Loss">
            <small className="soft">loss</small> {formatScore(metrics['train/loss'])}
          </span>
        ),
    },
    {
      name: 'Best',
      width: '120px',
      isNumber: true,
      cell: ({ best }) =>
        best === null ? (
          '–'
        ) : (
          <span title={best.metric}>
            {formatScore(best.value)} <small className="soft">step {best.step}</small>
          </span>
        ),
    },
    ...(hasVal
      ? [
          {
            name: 'Val',
            width: '60px',
            isNumber: true,
            cell: ({ metrics }: ModelDetailsObject) =>
              metrics['val/reward'] === undefined ? '–' : formatScore(metrics['val/reward']),
          },
        ]
      : []),
    ...(hasBases
      ? [
          {
            name: 'Base model',
            width: 'minmax(110px, 1.4fr)',
            cell: ({ base_model: base }: ModelDetailsObject) => (
              <span className="cut soft" title={base}>
                {base}
              </span>
            ),
          },
        ]
      : []),
    { name: 'Made', width: '86px', cell: ({ created_at: at }) => <Ago at={at} /> },
  ];
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
