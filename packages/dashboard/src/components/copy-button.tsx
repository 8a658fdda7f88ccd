import { useEffect, useState } from 'react';

import { Button, type ButtonLook } from './button.tsx';

const SHOWN_MS = 1_500;

/** Copies a text and reports success or refusal by the browser. */
export function CopyButton({
  text,
  label = 'Copy',
  name,
  look = 'quiet',
}: {
  text: string;
  label?: string;
  /** Accessible name, if several buttons have the same label. */
  name?: string | undefined;
  look?: ButtonLook;
}) {
  const [status, setStatus] = useState<string | null>(null);
  useEffect(() => {
    if (status === null) return;
    const timer = setTimeout(() => setStatus(null), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [status]);
  return (
    <Button
      look={look}
      aria-label={status === null ? name : undefined}
      onClick={() => void copy(text).then((isSo) => setStatus(isSo ? 'Copied' : 'Copy failed'))}
    >
      <span aria-live="polite">{status ?? label}</span>
    </Button>
  );
}

/** Copies a text. Pages over plain HTTP have no clipboard API and use the copy command. @returns whether it was copied */
async function copy(text: string): Promise<boolean> {
  const { clipboard } = navigator as { clipboard?: Clipboard };
  if (clipboard === undefined) return copyByCommand(text);
  return await clipboard.writeText(text).then(
    () => true,
    () => copyByCommand(text),
  );
}

function copyByCommand(text: string): boolean {
  const setData = (event: ClipboardEvent) => {
    event.clipboardData?.setData('text/plain', text);
    event.preventDefault();
  };
  document.addEventListener('copy', setData);
  const isCopied = document.execCommand('copy');
  document.removeEventListener('copy', setData);
  return isCopied;
}
