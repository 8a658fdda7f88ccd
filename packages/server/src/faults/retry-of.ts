import { TrainerError, type Retry } from '@trainyard/trainer';

import { isPassing } from './passing-fault.ts';

/** What running a job again is worth after this: what its learner says, or what the store does. */
export function retryOf(error: unknown): Retry {
  if (error instanceof TrainerError) return error.retry;
  return isPassing(error) ? 'wait' : 'never';
}
