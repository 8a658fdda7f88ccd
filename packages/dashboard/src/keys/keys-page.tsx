import './keys-page.css';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import type { ApiKeyObject } from '@trainyard/sdk';
import { useSearchParams } from 'wouter';

import { client } from '../api/client.ts';
import { keysQuery, revokeKey } from '../api/keys.ts';
import { Button } from '../components/button.tsx';
import { ConfirmButton } from '../components/actions/confirm-button.tsx';
import { type Column, DataTable } from '../components/data-table.tsx';
import { dayOf, timeOfDay } from '../components/days.ts';
import { allOr, FilterSelect, FilterText } from '../components/lists/filter-select.tsx';
import { Fault } from '../components/fault.tsx';
import { Page } from '../components/page.tsx';
import { StatusDot } from '../components/status-dot.tsx';
import { Ago } from '../components/time.tsx';
import { formatCount } from '../components/numbers.ts';
import { KEY_STATES, shownKeys, stateOfKey } from './key-filter.ts';
import { LimitsButton } from './limits-button.tsx';
import { KEY_SCOPES, NewKeyDialog } from './new-key-dialog.tsx';
import { shownName } from '../components/shown-name.ts';

/** API keys of the service. */
export function KeysPage() {
  const { data, error } = useQuery(keysQuery);
  const [isMaking, setIsMaking] = useState(false);
  const [parameters] = useSearchParams();
  const all = data?.data;
  const columns = useMemo(() => columnsFor(all ?? []), [all]);
  const keys = shownKeys(all ?? [], parameters, client.now());
  return (
    <Page
      title="Keys"
      actions={
        <Button look="primary" onClick={() => setIsMaking(true)} disabled={data === undefined}>
          New key
        </Button>
      }
    >
      {error === null ? null : <Fault error={error} />}
      {data === undefined ? null : (
        <>
          <div className="filters">
            <FilterSelect name="state" label="State" options={allOr(KEY_STATES)} />
            <FilterSelect name="scope" label="May" options={allOr(KEY_SCOPES.map(({ scope }) => scope))} />
            <FilterText name="q" label="Search names" />
          </div>
          {keys.length === 0 ? (
            <p className="soft">No key matches these filters.</p>
          ) : (
            <DataTable caption="Keys" columns={columns} rows={keys.toReversed()} keyOf={({ id }) => id} />
          )}
        </>
      )}
      {isMaking ? <NewKeyDialog onClose={() => setIsMaking(false)} /> : null}
    </Page>
  );
}

/** The entity is shown only if there are several. */
function columnsFor(keys: readonly ApiKeyObject[]): readonly Column<ApiKeyObject>[] {
  const hasEntities = new Set(keys.map(({ entity }) => entity)).size > 1;
  return COLUMNS.filter(({ name }) => hasEntities || name !== 'Entity');
}

const COLUMNS: readonly Column<ApiKeyObject>[] = [
  {
    name: 'Name',
    cell: (key) => (
      <>
        <strong className="key-name">{shownName(key.name)}</strong>
        {key.is_service_key ? <small className="soft"> of the service</small> : null}
      </>
    ),
  },
  { name: 'Secret', isShort: true, cell: ({ hint }) => <code>{hint === null ? '…' : `${hint}…`}</code> },
  { name: 'Entity', isShort: true, cell: ({ entity }) => entity },
  { name: 'May', isShort: true, cell: ({ scopes }) => scopes.join(', ') },
  { name: 'Limits', cell: ({ limits }) => <KeyLimits limits={limits} /> },
  { name: 'State', isShort: true, cell: (key) => <KeyState apiKey={key} /> },
  { name: 'Made', isShort: true, cell: ({ created_at: at }) => <Ago at={at} /> },
  {
    name: 'Last used',
    isShort: true,
    cell: ({ last_used_at: at }) => (at === null ? <span className="soft">never</span> : <Ago at={at} />),
  },
  {
    name: 'Actions',
    isNameHidden: true,
    isShort: true,
    cell: (key) =>
      key.revoked_at === null ? (
        <div className="key-actions">
          <LimitsButton apiKey={key} />
          <ConfirmButton
            label="Revoke"
            name={`Revoke ${key.name}`}
            question={`Revoke ${key.name}?`}
            explanation="Its requests are refused from now on, and its streams end. A revoked key cannot be restored."
            onConfirm={() => revokeKey(key.id)}
          />
        </div>
      ) : null,
  },
];

function KeyLimits({
  limits: { requests_per_minute: requests, tokens_per_minute: tokens, max_requests_in_flight: inFlight },
}: Pick<ApiKeyObject, 'limits'>) {
  const words = [
    requests === null ? null : `${formatCount(requests)} requests/min`,
    tokens === null ? null : `${formatCount(tokens)} tokens/min`,
    inFlight === null ? null : `${formatCount(inFlight)} in flight`,
  ].filter((word) => word !== null);
  return words.length === 0 ? <span className="soft">none</span> : words.join(', ');
}

function KeyState({ apiKey }: { apiKey: ApiKeyObject }) {
  const now = client.now();
  const state = stateOfKey(apiKey, now);
  const tone = state === 'valid' ? 'good' : 'bad';
  const { expires_at: expiresAt } = apiKey;
  if (state === 'revoked' || expiresAt === null) return <StatusDot tone={tone}>{state}</StatusDot>;
  const isSoon = Math.abs(expiresAt - now / 1000) < 86_400;
  const date = isSoon ? `${dayOf(expiresAt)} ${timeOfDay(expiresAt)}` : dayOf(expiresAt);
  return <StatusDot tone={tone}>{`${state === 'expired' ? 'expired' : 'until'} ${date}`}</StatusDot>;
}
