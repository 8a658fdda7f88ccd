import { type ComponentProps, useState } from 'react';

import { Button, type ButtonLook } from '../button.tsx';
import { faultText } from '../fault.tsx';
import { useToast } from './toasts.tsx';

/** A button with asynchronous work; shows its error if it fails. */
export function ActionButton({
  onAct,
  ...rest
}: Omit<ComponentProps<'button'>, 'onClick'> & { look?: ButtonLook; onAct: () => Promise<void> }) {
  const [isBusy, setIsBusy] = useState(false);
  const toast = useToast();
  async function act() {
    setIsBusy(true);
    try {
      await onAct();
    } catch (error) {
      toast(faultText(error), 'bad');
    }
    setIsBusy(false);
  }
  return <Button {...rest} isBusy={isBusy} onClick={() => void act()} />;
}
