import { useQuery } from '@tanstack/react-query';
import type { ExportObject } from '@trainyard/sdk';

import { deleteExport, exportFileUrl, exportsQuery } from '../api/checkpoints.ts';
import { ConfirmButton } from '../components/actions/confirm-button.tsx';
import { type Column, DataTable } from '../components/data-table.tsx';
import { formatValue } from '../components/numbers.ts';
import { StatusDot, type StatusTone } from '../components/status-dot.tsx';
import { Ago } from '../components/time.tsx';
import { shownName } from '../components/shown-name.ts';

const TONES: Readonly<Record<ExportObject['status'], StatusTone>> = {
  queued: 'warn',
  running: 'live',
  succeeded: 'good',
  failed: 'bad',
};

/** Checkpoints as files in public formats. */
export function ExportTable({ modelId }: { modelId: string }) {
  const { data } = useQuery(exportsQuery(modelId));
  if (data === undefined || data.data.length === 0) return null;
  return (
    <section className="chart-group">
      <h2>Exports</h2>
      <DataTable caption="Exports" columns={COLUMNS} rows={data.data} keyOf={({ id }) => id} />
    </section>
  );
}

const COLUMNS: readonly Column<ExportObject>[] = [
  { name: 'Step', cell: ({ step }) => step },
  { name: 'Format', cell: ({ format, dtype }) => `${format} ${dtype}` },
  {
    name: 'State',
    cell: ({ status, error_message: message }) => (
      <>
        <StatusDot tone={TONES[status]}>{status}</StatusDot>
        {message === null ? null : <div className="soft">{shownName(message)}</div>}
      </>
    ),
  },
  {
    name: 'Files',
    cell: (one) => (
      <span className="export-files">
        {one.files.map(({ name, size_bytes: bytes }) => (
          <span key={name}>
            <a href={exportFileUrl(one, name)} download={name}>
              {shownName(name)}
            </a>{' '}
            <small className="soft">{(bytes / 1e6).toFixed(1)} MB</small>
          </span>
        ))}
      </span>
    ),
  },
  {
    name: 'Difference',
    isNumber: true,
    cell: ({ parity }) => (parity === null ? '–' : formatValue(parity.mean_abs_difference)),
  },
  { name: 'Made', cell: ({ created_at: at }) => <Ago at={at} /> },
  {
    name: 'Actions',
    isNameHidden: true,
    cell: ({ id, model_id: modelId }) => (
      <ConfirmButton
        label="Delete"
        name="Delete this export"
        question="Delete this export?"
        explanation="Deletes its files. The checkpoint stays."
        onConfirm={() => deleteExport(modelId, id)}
      />
    ),
  },
];
