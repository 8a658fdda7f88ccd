import { useState } from 'react';

import { Button, type ButtonLook } from '../button.tsx';
import { Dialog } from './dialog.tsx';
import { Fault } from '../fault.tsx';
import { shownIfText } from '../shown-name.ts';

/** A button for work that cannot be undone: asks first, and shows the error if it fails. */
export function ConfirmButton({
  label,
  name = label,
  look = 'quiet',
  question,
  explanation,
  onConfirm,
}: {
  label: string;
  /** Accessible name, for users who cannot see the context of the button. */
  name?: string;
  look?: ButtonLook;
  question: string;
  explanation: string;
  onConfirm: () => Promise<void>;
}) {
  const [isOpen, setIsOpen] = useState(false);
  const [isBusy, setIsBusy] = useState(false);
  const [fault, setFault] = useState<unknown>(null);

  async function confirm() {
    setIsBusy(true);
    setFault(null);
    try {
      await onConfirm();
      setIsOpen(false);
    } catch (error) {
      setFault(error);
    }
    setIsBusy(false);
  }

  return (
    <>
      <Button look={look} aria-label={shownIfText(name)} onClick={() => setIsOpen(true)}>
        {label}
      </Button>
      <Dialog title={question} description={explanation} isOpen={isOpen} onClose={() => setIsOpen(false)}>
        {fault === null ? null : <Fault error={fault} />}
        <div className="dialog-actions">
          <Button onClick={() => setIsOpen(false)}>Cancel</Button>
          <Button look="danger" isBusy={isBusy} onClick={() => void confirm()}>
            {label}
          </Button>
        </div>
      </Dialog>
    </>
  );
}
