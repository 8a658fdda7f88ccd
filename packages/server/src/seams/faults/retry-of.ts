import { TrainerError, type Retry } from '@trainyard/trainer';

import { isPassing } from './passing-fault.ts';

export function retryOf(error: unknown): Retry {
  if (error instanceof TrainerError) return error.retry;
  return isPassing(error) ? 'wait' : 'never';
}
