import '../components/field.css';
import './models-page.css';
import { type Dispatch, type SetStateAction, useMemo, useState } from 'react';
import type { ModelDetailsObject } from '@trainyard/sdk';
import { Link, useSearchParams } from 'wouter';

import { useAllModels } from '../api/all-models.ts';
import { deleteModels, labelModels } from '../api/models.ts';
import { ActionButton } from '../components/actions/action-button.tsx';
import { ConfirmButton } from '../components/actions/confirm-button.tsx';
import { CutName } from '../components/lists/cut-name.tsx';
import { Empty } from '../components/empty.tsx';
import { EmptyUntilTrained, TRAINS_BY_EXAMPLE } from '../components/empty-until-trained.tsx';
import { Fault } from '../components/fault.tsx';
import { FilterSelect, FilterText } from '../components/lists/filter-select.tsx';
import { matchingModels, tagsOf } from '../components/lists/model-filter.ts';
import { TagFilter } from '../components/lists/tag-filter.tsx';
import { Tags } from '../components/lists/tags.tsx';
import { ProjectFilter } from '../components/lists/project-filter.tsx';
import { type LongColumn, LongTable } from '../components/long-table.tsx';
import { counted, formatCount, formatScore } from '../components/numbers.ts';
import { Page } from '../components/page.tsx';
import { StatusDot } from '../components/status-dot.tsx';
import { Ago } from '../components/time.tsx';
import { TagButton } from './labels/tag-button.tsx';
import { ModelCurve } from './model-curve.tsx';
import { MODEL_ORDERS, orderedModels } from './model-order.ts';
import { shownName } from '../components/shown-name.ts';

const NONE: ReadonlySet<string> = new Set();

/** All trained models: search, project, order, last values, and deletion of several. */
export function ModelsPage() {
  const { models, isRead, error } = useAllModels();
  return (
    <Page title="Models">
      {error === null ? null : <Fault error={error} />}
      {!isRead ? null : models.length === 0 ? (
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
  const [chosen, setChosen] = useState(NONE);
  const read = (name: string) => parameters.get(name) ?? '';
  const [search, project, order] = [read('q'), read('project'), read('sort')];
  const tags = useMemo(() => parameters.getAll('tag').filter(Boolean), [parameters]);
  const isArchived = read('archived') === 'only';
  const all = useMemo(() => matchingModels(models, { isArchived }), [models, isArchived]);
  const shown = useMemo(
    () => orderedModels(all, { search, project, tags, isArchived, order }),
    [all, search, project, tags, isArchived, order],
  );
  const columns = useMemo(() => columnsFor(all, chosen, setChosen), [all, chosen]);
  const marked = shown.filter(({ id }) => chosen.has(id));
  return (
    <>
      <div className="filters">
        <FilterText name="q" label="Search models" />
        <ProjectFilter projects={all.map((model) => model.project)} />
        <TagFilter tags={tagsOf(all)} />
        {isArchived || all.length < models.length ? (
          <FilterSelect
            name="archived"
            label="Show"
            options={[
              ['', 'current'],
              ['only', 'archived'],
            ]}
          />
        ) : null}
        <FilterSelect name="sort" label="Order" options={MODEL_ORDERS} />
        <span className="soft" role="status">
          {shown.length === all.length
            ? counted(all.length, 'model')
            : `${formatCount(shown.length)} of ${formatCount(all.length)}`}
        </span>
        {shown.length < 2 || isArchived ? null : (
          <Link className="button" href={compareHref(marked, parameters)}>
            {marked.length > 1 ? `Compare ${marked.length}` : 'Compare'}
          </Link>
        )}
        {marked.length === 0 ? null : (
          <MarkedActions marked={marked} isArchived={isArchived} onDone={() => setChosen(NONE)} />
        )}
      </div>
      {shown.length === 0 ? (
        <Empty title="No models match">Search for other words, or choose other filters.</Empty>
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

/** Work on several models. */
function MarkedActions({
  marked,
  isArchived,
  onDone,
}: {
  marked: readonly ModelDetailsObject[];
  isArchived: boolean;
  onDone: () => void;
}) {
  const number = marked.length;
  const ids = marked.map(({ id }) => id);
  return (
    <>
      <TagButton modelIds={ids} />
      <ActionButton
        onAct={async () => {
          await labelModels(ids, { is_archived: !isArchived });
          onDone();
        }}
      >
        {isArchived ? 'Restore' : 'Archive'} {number}
      </ActionButton>
      <ConfirmButton
        label={`Delete ${number}`}
        name={`Delete ${number} chosen models`}
        look="danger"
        question={number === 1 ? `Delete ${marked[0]!.name}?` : `Delete ${number} models?`}
        explanation="Deletes their checkpoints with their files, their metrics and their rollouts for good, and cancels their jobs."
        onConfirm={async () => {
          await deleteModels(ids);
          onDone();
        }}
      />
    </>
  );
}

/** Comparison of the chosen models, or of those that the filter shows. */
function compareHref(chosen: readonly ModelDetailsObject[], parameters: URLSearchParams): string {
  const filter = [...parameters].filter(([name]) => name === 'q' || name === 'project' || name === 'tag');
  return `/compare?${new URLSearchParams(chosen.length > 1 ? chosen.map(({ id }) => ['model', id]) : filter)}`;
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
      cell: ({ id, entity, project, name, tags }) => (
        <span className="model-name">
          <Link href={`/models/${encodeURIComponent(id)}`}>
            <CutName text={shownName(name)} />
          </Link>
          <small className="model-place soft">
            <span className="cut">{shownName(`${entity}/${project}`)}</span> <Tags tags={tags} />
          </small>
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
