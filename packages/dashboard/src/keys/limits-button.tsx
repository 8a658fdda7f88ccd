import { type FormEvent, useState } from 'react';
import type { ApiKeyObject } from '@trainyard/sdk';

import { limitKey } from '../api/keys.ts';
import { Button } from '../components/button.tsx';
import { Dialog } from '../components/actions/dialog.tsx';
import { Fault } from '../components/fault.tsx';
import { LimitFields, limitsOf, typedLimits } from './limit-fields.tsx';
import { shownName } from '../components/shown-name.ts';

/** Shows and changes the limits of a key. */
export function LimitsButton({ apiKey }: { apiKey: ApiKeyObject }) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <>
      <Button look="quiet" aria-label={`Limits of ${shownName(apiKey.name)}`} onClick={() => setIsOpen(true)}>
        Limits
      </Button>
      <Dialog
        title={`Limits of ${apiKey.name}`}
        description="They apply from the key's next request, across all processes of the service. Requests above a limit are refused with a time to wait."
        isOpen={isOpen}
        onClose={() => setIsOpen(false)}
      >
        <LimitsForm apiKey={apiKey} onClose={() => setIsOpen(false)} />
      </Dialog>
    </>
  );
}

function LimitsForm({ apiKey, onClose }: { apiKey: ApiKeyObject; onClose: () => void }) {
  const [limits, setLimits] = useState(() => typedLimits(apiKey.limits));
  const [fault, setFault] = useState<unknown>(null);
  const [isBusy, setIsBusy] = useState(false);

  async function change() {
    setIsBusy(true);
    setFault(null);
    try {
      await limitKey(apiKey.id, limitsOf(limits));
      onClose();
    } catch (error) {
      setFault(error);
      setIsBusy(false);
    }
  }

  function submit(event: FormEvent) {
    event.preventDefault();
    void change();
  }

  return (
    <form className="key-form" onSubmit={submit}>
      {fault === null ? null : <Fault error={fault} />}
      <LimitFields limits={limits} onChange={setLimits} />
      <div className="dialog-actions">
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" type="submit" isBusy={isBusy}>
          Save limits
        </Button>
      </div>
    </form>
  );
}
