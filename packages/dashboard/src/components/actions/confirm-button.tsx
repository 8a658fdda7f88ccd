import { useState } from 'react';

import { Button, type ButtonLook } from '../button.tsx';
import { Dialog } from './dialog.tsx';
import { Fault } from '../fault.tsx';
import { shownIfText } from '../shown-name.ts';

/** A button whose work cannot be undone: it asks first, and says why the work failed. */
export function ConfirmButton({
  label,
  name = label,
  look = 'quiet',
  question,
  explanation,
  onConfirm,
}: {
  label: string;
  /** For who does not see what the button stands beside. */
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
          <Button onClick={() => setIsOpen(false)}>No</Button>
          <Button look="danger" isBusy={isBusy} onClick={() => void confirm()}>
            {label}
          </Button>
        </div>
      </Dialog>
    </>
  );
}
