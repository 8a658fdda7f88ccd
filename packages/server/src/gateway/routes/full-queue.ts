import { StoreError } from '@trainyard/store';

import { RequestError } from '../../seams/faults/request-error.ts';

/**
 * The result of `enqueued`.
 *
 * @param message names the limit and what to do about it
 * @throws {RequestError} `request.too_many` when the queue takes no more
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
