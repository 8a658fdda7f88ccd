import './empty.css';
import type { ReactNode } from 'react';

import { Command } from './command.tsx';
import { shownName } from './shown-name.ts';

/** Empty state with a command that fills it. */
export function Empty({ title, children, command }: { title: string; children?: ReactNode; command?: string }) {
  return (
    <div className="empty">
      <h2>{shownName(title)}</h2>
      {children === undefined ? null : <p>{children}</p>}
      {command === undefined ? null : <Command text={command} />}
    </div>
  );
}
