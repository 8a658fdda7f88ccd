import { useEffect, useState } from 'react';

import { Button } from '../components/button.tsx';
import { GoToDialog } from './go-to-dialog.tsx';
import { ShortcutsDialog } from './shortcuts-dialog.tsx';

type Opened = 'go-to' | 'shortcuts' | null;

/** Buttons and keys of every page: Ctrl-K searches, `?` lists the shortcuts. */
export function ShellKeys({ scopes }: { scopes: readonly string[] }) {
  const [opened, setOpened] = useState<Opened>(null);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof Element && event.target.matches('input, textarea, select');
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        setOpened('go-to');
      } else if (event.key === '?' && !isTyping) setOpened('shortcuts');
    };
    addEventListener('keydown', onKeyDown);
    return () => removeEventListener('keydown', onKeyDown);
  }, []);
  const close = () => setOpened(null);
  return (
    <>
      <div className="shell-tools">
        <Button look="quiet" title="Ctrl-K" onClick={() => setOpened('go-to')}>
          Go to …
        </Button>
        <Button look="quiet" title="?" aria-label="Keyboard shortcuts" onClick={() => setOpened('shortcuts')}>
          ?
        </Button>
        <a className="button" data-look="quiet" href="/guides">
          Guides
        </a>
        <a className="button" data-look="quiet" href="/docs">
          API
        </a>
      </div>
      {opened === 'go-to' ? <GoToDialog scopes={scopes} onClose={close} /> : null}
      {opened === 'shortcuts' ? <ShortcutsDialog onClose={close} /> : null}
    </>
  );
}
