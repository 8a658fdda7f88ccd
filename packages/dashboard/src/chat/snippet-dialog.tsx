import { Dialog } from 'radix-ui';
import { useState } from 'react';

import { Button } from '../components/button.tsx';
import { CopyButton } from '../components/copy-button.tsx';
import { shownName } from '../components/shown-name.ts';
import { snippet, SNIPPET_KINDS, type SnippetKind } from './snippets.ts';

/** The request of the chat as a program to copy, in several languages. */
export function SnippetDialog({ body }: { body: Readonly<Record<string, unknown>> }) {
  const [kind, setKind] = useState<SnippetKind>('curl');
  const text = snippet(kind, `${location.origin}/v1`, body);
  return (
    <Dialog.Root>
      <Dialog.Trigger asChild>
        <Button>Copy as code</Button>
      </Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Overlay className="snippet-overlay" />
        <Dialog.Content className="snippet-dialog">
          <Dialog.Title asChild>
            <h2>The same request as code</h2>
          </Dialog.Title>
          <Dialog.Description className="soft">
            It reads your key from <code>TRAINYARD_API_KEY</code>.
          </Dialog.Description>
          <div className="snippet-tabs" role="group" aria-label="Language">
            {SNIPPET_KINDS.map((one) => (
              <Button key={one.kind} look="quiet" aria-pressed={one.kind === kind} onClick={() => setKind(one.kind)}>
                {one.text}
              </Button>
            ))}
          </div>
          <pre className="snippet-text" tabIndex={0} role="region" aria-label="Code">
            {shownName(text)}
          </pre>
          <div className="snippet-actions">
            <CopyButton text={text} label="Copy code" />
            <Dialog.Close asChild>
              <Button>Close</Button>
            </Dialog.Close>
          </div>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
