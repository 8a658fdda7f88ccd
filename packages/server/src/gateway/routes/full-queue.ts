import { StoreError } from '@trainyard/store';

import { RequestError } from '../../seams/faults/request-error.ts';

/**
 * Result of `enqueued`.
 * @param message has the limit and the next step
 * @throws {RequestError} `request.too_many` if the queue is full
 */
export async function refusedWhenFull<Result>(enqueued: Promise<Result>, message: string): Promise<Result> {
  try {
    return await enqueued;
  } catch (error) {
    throw error instanceof StoreError && error.code === 'store.queue_full'
      ? new RequestError('request.too_many', message)
      : error;
  }
}
