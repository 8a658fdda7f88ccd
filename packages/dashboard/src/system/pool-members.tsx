import type { HostsObject } from '@trainyard/sdk';

import { type Column, DataTable } from '../components/data-table.tsx';
import { formatCount } from '../components/numbers.ts';
import { StatusDot, type StatusTone } from '../components/status-dot.tsx';

type Member = HostsObject['sampling']['hosts'][number]['members'][number];

const TONES: Readonly<Record<Member['state'], StatusTone>> = {
  up: 'good',
  draining: 'warn',
  failing: 'bad',
  down: 'bad',
  unfit: 'bad',
};

const NAMES: Readonly<Record<Member['kind'], readonly [one: string, several: string]>> = {
  engine: ['engine', 'engines'],
  vllm: ['vLLM server', 'vLLM servers'],
};

/** A count with its noun: 2 engines. @param members all of one kind */
export function countOf(members: readonly Member[]): string {
  const [one, several] = NAMES[members[0]?.kind ?? 'engine'];
  return `${members.length} ${members.length === 1 ? one : several}`;
}

/** The engines or vLLM servers of a base model, each with its current load. */
export function PoolMembers({ members }: { members: readonly Member[] }) {
  const [, several] = NAMES[members[0]?.kind ?? 'engine'];
  return <DataTable caption={several} columns={COLUMNS} rows={members} keyOf={({ url }) => url} />;
}

/** Loaded steps of a server, one per line. */
function namesOf(steps: Member['steps']): string {
  return steps.map(({ model, step }) => `${model}:step${step}`).join('\n');
}

const COLUMNS: readonly Column<Member>[] = [
  { name: 'Address', cell: ({ url }) => <code>{url}</code> },
  {
    name: 'State',
    cell: ({ state, trouble }) => (
      <>
        <StatusDot tone={TONES[state]}>{state}</StatusDot>
        {trouble === null ? null : <div className="soft">{trouble}</div>}
      </>
    ),
  },
  { name: 'Version', cell: ({ version }) => version ?? '–' },
  { name: 'In flight', isNumber: true, cell: ({ num_choices: number }) => formatCount(number) },
  {
    name: 'Adapters',
    isNumber: true,
    cell: ({ num_adapters: number, steps, members }) => (
      <span title={namesOf([steps, ...members.map((server) => server.steps)].flat())}>{formatCount(number)}</span>
    ),
  },
  { name: 'KV cache', isNumber: true, cell: ({ kv_use: use }) => (use === null ? '–' : `${(use * 100).toFixed(0)} %`) },
  { name: 'Requests', isNumber: true, cell: ({ num_requests: number }) => formatCount(number) },
  { name: 'Failed', isNumber: true, cell: ({ num_failures: number }) => formatCount(number) },
  { name: 'Lost', isNumber: true, cell: ({ num_losses: number }) => formatCount(number) },
  { name: 'Sampled', isNumber: true, cell: ({ generated_tokens: number }) => formatCount(number) },
];
