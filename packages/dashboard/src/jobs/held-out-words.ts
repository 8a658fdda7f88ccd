import type { TrainingJobObject } from '@trainyard/sdk';

import { formatCount } from '../components/numbers.ts';

type HeldOut = NonNullable<NonNullable<TrainingJobObject['training_data']>['held_out']>;

/** Held-out conversations: `12 of these`, `the first 100 of 3,000 in URL`. */
export function heldOutWords({ url, num_used: numUsed, num_lines: numLines }: HeldOut): string {
  if (url === null) return `${formatCount(numUsed)} of these`;
  const used =
    numUsed === numLines ? formatCount(numUsed) : `the first ${formatCount(numUsed)} of ${formatCount(numLines)}`;
  return `${used} in ${url}`;
}
