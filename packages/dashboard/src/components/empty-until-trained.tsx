import type { ReactNode } from 'react';

import { Empty } from './empty.tsx';

/** The command that trains a small task, as it can be typed where the service was started; null where that program has no demo. */
const DEMO = document.querySelector<HTMLMetaElement>('meta[name=demo-command]')?.content || null;

/**
 * A place where nothing is before something was trained, and the command that trains.
 *
 * @param demo said of the demo, where there is one
 * @param command what does it where there is none
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

/** Trains a model on a file of conversations. */
export const TRAINS_BY_EXAMPLE = 'trainyard sft FILE --model PROJECT/NAME';
