import type { ReactNode } from 'react';

import { Empty } from './empty.tsx';

/** Command that trains a small task, as typed where the service was started; null if the program has no demo. */
const DEMO = document.querySelector<HTMLMetaElement>('meta[name=demo-command]')?.content || null;

/**
 * Empty state until something is trained, with the command that trains.
 *
 * @param demo text about the demo, if there is one
 * @param command command to show if there is no demo
 */
export function EmptyUntilTrained({
  title,
  children,
  demo = '',
  command,
}: {
  title: string;
  children: ReactNode;
  demo?: string;
  command?: string;
}) {
  const shown = DEMO ?? command;
  return (
    <Empty title={title} {...(shown === undefined ? {} : { command: shown })}>
      {children} {DEMO === null ? null : demo}
    </Empty>
  );
}

/** Command that trains a model on a file of conversations. */
export const TRAINS_BY_EXAMPLE = 'trainyard sft FILE --model PROJECT/NAME';
