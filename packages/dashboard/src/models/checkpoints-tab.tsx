import './checkpoints-tab.css';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { CheckpointObject, ModelDetailsObject } from '@trainyard/sdk';
import { Link, useSearchParams } from 'wouter';

import {
  type CheckpointFilter,
  checkpointsQuery,
  deleteCheckpoint,
  EXPORT_FORMATS,
  exportCheckpoint,
  restoreCheckpoint,
} from '../api/checkpoints.ts';
import { useMay } from '../api/session.ts';
import { useMorePages } from '../api/more-pages.ts';
import { ActionButton } from '../components/actions/action-button.tsx';
import { ConfirmButton } from '../components/actions/confirm-button.tsx';
import { FilterSelect, FilterText } from '../components/lists/filter-select.tsx';
import { Fault, faultText } from '../components/fault.tsx';
import { type LongColumn, LongTable } from '../components/long-table.tsx';
import { Menu, MenuItem } from '../components/actions/menu.tsx';
import { formatMegabytes, formatScore, formatValue } from '../components/numbers.ts';
import { useToast } from '../components/actions/toasts.tsx';
import { ExportTable } from './export-table.tsx';

/** Metrics that get a column if any checkpoint has them. */
const SHOWN = ['train/reward', 'val/reward', 'train/policy_loss', 'train/loss', 'train/entropy', 'train/kl_base'];

/** All kept steps of a model, with their metrics and actions. */
export function CheckpointsTab({ model }: { model: ModelDetailsObject }) {
  const [parameters] = useSearchParams();
  const filter = checkpointFilterOf(parameters);
  const list = useInfiniteQuery(checkpointsQuery(model.id, filter));
  const { data, error } = list;
  const more = useMorePages(list);
  const checkpoints = data?.pages.flatMap((page) => page.data) ?? [];
  const names = SHOWN.filter((name) => checkpoints.some(({ metrics }) => metrics[name] !== undefined)).join(' ');
  const isRemoved = filter.removed === true;
  const columns = useMemo(
    () => columnsOf(model, names === '' ? [] : names.split(' '), isRemoved),
    [model, names, isRemoved],
  );
  return (
    <>
      <div className="filters">
        <FilterSelect
          name="state"
          label="State"
          options={[
            ['', 'kept'],
            ['removed', 'removed, can be restored'],
          ]}
        />
        <FilterText name="from" label="From step" />
        <FilterText name="to" label="To step" />
      </div>
      {error === null ? null : <Fault error={error} />}
      {data !== undefined && checkpoints.length === 0 ? (
        <p className="soft">No checkpoint matches these filters.</p>
      ) : null}
      <LongTable
        caption="Checkpoints"
        columns={columns}
        rows={checkpoints}
        keyOf={({ step }) => step}
        rowHeight={42}
        minWidth={520 + 90 * (names === '' ? 0 : names.split(' ').length)}
        onEnd={more}
      />
      <CheckpointSizes checkpoints={checkpoints} isWhole={!list.hasNextPage && Object.keys(filter).length === 0} />
      <ExportTable modelId={model.id} />
    </>
  );
}

/** Filter of the address: `state`, and the steps `from` and `to`; other texts than numbers match all. */
function checkpointFilterOf(parameters: URLSearchParams): CheckpointFilter {
  const step = (name: string) => {
    const text = parameters.get(name) ?? '';
    return /^\d{1,9}$/.test(text) ? Number(text) : undefined;
  };
  const [from, to] = [step('from'), step('to')];
  return {
    ...(parameters.get('state') === 'removed' ? { removed: true } : {}),
    ...(from === undefined ? {} : { min_step: from }),
    ...(to === undefined ? {} : { max_step: to }),
  };
}

function columnsOf(
  model: ModelDetailsObject,
  names: readonly string[],
  isRemoved: boolean,
): LongColumn<CheckpointObject>[] {
  return [
    {
      name: 'Step',
      width: '110px',
      cell: ({ step }) => (
        <>
          {step}
          {step === model.best?.step ? <small className="soft"> best</small> : null}
          {step === model.latest_step ? <small className="soft"> latest</small> : null}
        </>
      ),
    },
    ...names.map((name) => ({
      name: titleOf(name),
      width: 'minmax(70px, 1fr)',
      isNumber: true,
      cell: ({ metrics }: CheckpointObject) => {
        const value = metrics[name];
        if (value === undefined) return '–';
        return name.endsWith('/reward') ? formatScore(value) : formatValue(value);
      },
    })),
    {
      name: 'Size',
      width: '100px',
      isNumber: true,
      cell: (checkpoint) => <CheckpointSize checkpoint={checkpoint} />,
    },
    {
      name: 'Actions',
      isNameHidden: true,
      width: '270px',
      cell: ({ step }) =>
        isRemoved ? (
          <ActionButton look="quiet" onAct={() => restoreCheckpoint(model.id, step)}>
            Restore
          </ActionButton>
        ) : (
          <CheckpointActions model={model} step={step} />
        ),
    },
  ];
}

function CheckpointSize({ checkpoint: { size_bytes, optimizer_bytes, kept_for } }: { checkpoint: CheckpointObject }) {
  if (size_bytes === null) return <>–</>;
  const optimizer = optimizer_bytes ?? 0;
  const parts = optimizer === 0 ? 'without optimizer state' : `${formatMegabytes(optimizer)} of it optimizer state`;
  const reasons =
    kept_for === null ? '' : `, ${kept_for.length === 0 ? 'removed soon' : `kept for: ${kept_for.join(', ')}`}`;
  return <span title={parts + reasons}>{formatMegabytes(size_bytes + optimizer)}</span>;
}

/** Sum of the listed sizes. */
function CheckpointSizes({ checkpoints, isWhole }: { checkpoints: readonly CheckpointObject[]; isWhole: boolean }) {
  const sum = (key: 'size_bytes' | 'optimizer_bytes'): number =>
    checkpoints.reduce((total, checkpoint) => total + (checkpoint[key] ?? 0), 0);
  const total = sum('size_bytes') + sum('optimizer_bytes');
  if (total === 0) return null;
  return (
    <p className="soft">
      {isWhole ? 'All checkpoints' : `These ${checkpoints.length} checkpoints`}: {formatMegabytes(total)},{' '}
      {formatMegabytes(sum('optimizer_bytes'))} of it optimizer state
    </p>
  );
}

function CheckpointActions({ model, step }: { model: ModelDetailsObject; step: number }) {
  const toast = useToast();
  const mayChat = useMay('inference');
  const name = `${model.entity}/${model.project}/${model.name}:step${step}`;
  return (
    <span className="checkpoint-actions">
      {mayChat ? (
        <Link className="button" data-look="quiet" href={`/chat?${new URLSearchParams({ model: name })}`}>
          Chat
        </Link>
      ) : null}
      <Menu label="Export" name={`Export step ${step}`} look="quiet">
        {EXPORT_FORMATS.map(({ format, text }) => (
          <MenuItem
            key={format}
            onSelect={() =>
              void exportCheckpoint(model.id, step, format).then(
                () => toast(`The export of step ${step} is queued`),
                (error: unknown) => toast(faultText(error), 'bad'),
              )
            }
          >
            {text}
          </MenuItem>
        ))}
      </Menu>
      <ConfirmButton
        label="Delete"
        name={`Delete step ${step}`}
        question={`Delete step ${step}?`}
        explanation="Deletes its weights and files for good. Its metrics stay in the charts."
        onConfirm={() => deleteCheckpoint(model.id, step)}
      />
    </span>
  );
}

/** `train/kl_base` → `KL base`, `val/reward` → `Val` */
function titleOf(metric: string): string {
  const words = metric
    .replace(/^train\//, '')
    .replace('/reward', '')
    .replaceAll('_', ' ')
    .replace(/^kl /, 'KL ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
