import { useEffect, useState } from 'react';

import { Button } from './button.tsx';

const SHOWN_MS = 1_500;

/** Copies a text, and says so, or that the browser did not let it. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [said, setSaid] = useState<string | null>(null);
  useEffect(() => {
    if (said === null) return;
    const timer = setTimeout(() => setSaid(null), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [said]);
  return (
    <Button look="quiet" onClick={() => void copied(text).then((isSo) => setSaid(isSo ? 'Copied' : 'Not copied'))}>
      <span aria-live="polite">{said ?? label}</span>
    </Button>
  );
}

/** Pages that came over plain HTTP have no clipboard; what a person copies there can still be said. */
async function copied(text: string): Promise<boolean> {
  const { clipboard } = navigator as { clipboard?: Clipboard };
  if (clipboard === undefined) return copiedByCommand(text);
  return await clipboard.writeText(text).then(
    () => true,
    () => copiedByCommand(text),
  );
}

function copiedByCommand(text: string): boolean {
  const say = (event: ClipboardEvent) => {
    event.clipboardData?.setData('text/plain', text);
    event.preventDefault();
  };
  document.addEventListener('copy', say);
  const isCopied = document.execCommand('copy');
  document.removeEventListener('copy', say);
  return isCopied;
}
