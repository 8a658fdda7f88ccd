import '../components/field.css';
import { type FormEvent, useState } from 'react';
import type { ApiKeyObject } from '@trainyard/sdk';

import { createKey } from '../api/keys.ts';
import { Button } from '../components/button.tsx';
import { Command } from '../components/command.tsx';
import { Dialog } from '../components/actions/dialog.tsx';
import { Fault } from '../components/fault.tsx';
import { Notice } from '../components/notice.tsx';
import { endOfDay, LAST_DAY } from '../components/days.ts';
import { LimitFields, limitsOf, NO_LIMITS_TYPED } from './limit-fields.tsx';

type KeyScope = ApiKeyObject['scopes'][number];

export const KEY_SCOPES: readonly { readonly scope: KeyScope; readonly text: string }[] = [
  { scope: 'inference', text: 'sample from models' },
  { scope: 'training', text: 'train models and read their data' },
  { scope: 'admin', text: 'everything, including keys' },
];

/** Creates a key and shows its secret once. */
export function NewKeyDialog({ onClose }: { onClose: () => void }) {
  const [secret, setSecret] = useState<string | null>(null);
  return (
    <Dialog title={secret === null ? 'New key' : 'The new key'} isOpen onClose={onClose}>
      {secret === null ? (
        <KeyForm onMade={setSecret} onClose={onClose} />
      ) : (
        <>
          <Notice tone="warn">Copy it now. You won't see it again.</Notice>
          <Command text={secret} label="Secret" isWhole />
          <div className="key-shell">
            <small className="soft">For a shell:</small>
            <Command text={`export TRAINYARD_API_KEY=${secret}`} label="Shell line" isWhole />
          </div>
          <div className="dialog-actions">
            <Button look="primary" onClick={onClose}>
              Done
            </Button>
          </div>
        </>
      )}
    </Dialog>
  );
}

function KeyForm({ onMade, onClose }: { onMade: (secret: string) => void; onClose: () => void }) {
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<KeyScope[]>(['inference', 'training']);
  const [until, setUntil] = useState('');
  const [limits, setLimits] = useState(NO_LIMITS_TYPED);
  const [fault, setFault] = useState<unknown>(null);
  const [isBusy, setIsBusy] = useState(false);

  async function make() {
    setIsBusy(true);
    setFault(null);
    try {
      const { secret } = await createKey({
        name: name.trim(),
        scopes,
        expires_at: until === '' ? null : endOfDay(until),
        limits: limitsOf(limits),
      });
      onMade(secret ?? '');
    } catch (error) {
      setFault(error);
      setIsBusy(false);
    }
  }

  function submit(event: FormEvent) {
    event.preventDefault();
    void make();
  }

  return (
    <form className="key-form" onSubmit={submit}>
      {fault === null ? null : <Fault error={fault} />}
      <label className="field">
        Name
        <input
          className="input"
          value={name}
          maxLength={128}
          required
          placeholder="alice@laptop"
          onChange={(event) => setName(event.target.value)}
        />
      </label>
      <fieldset>
        <legend>Permissions</legend>
        {KEY_SCOPES.map(({ scope, text }) => (
          <label key={scope}>
            <input
              type="checkbox"
              checked={scopes.includes(scope)}
              onChange={(event) =>
                setScopes(event.target.checked ? [...scopes, scope] : scopes.filter((other) => other !== scope))
              }
            />
            <span>
              {scope} <small className="soft">{text}</small>
            </span>
          </label>
        ))}
      </fieldset>
      <label className="field">
        Valid until
        <input
          className="input"
          type="date"
          max={LAST_DAY}
          value={until}
          onChange={(event) => setUntil(event.target.value)}
        />
        <small>Leave empty for no expiry</small>
      </label>
      <details className="key-limits">
        <summary>Limits</summary>
        <LimitFields limits={limits} onChange={setLimits} />
      </details>
      <div className="dialog-actions">
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" type="submit" isBusy={isBusy} disabled={name.trim() === '' || scopes.length === 0}>
          Create key
        </Button>
      </div>
    </form>
  );
}
