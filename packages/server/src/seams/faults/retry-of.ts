import { TrainerError, type Retry } from '@trainyard/trainer';

import { isPassing } from './passing-fault.ts';

/** Whether running a job again can help after this error, as its learner or the store says. */
export function retryOf(error: unknown): Retry {
  if (error instanceof TrainerError) return error.retry;
  return isPassing(error) ? 'wait' : 'never';
}
