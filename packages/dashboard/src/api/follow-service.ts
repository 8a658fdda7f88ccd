import { Trainyard, type ServiceEventObject } from '@trainyard/sdk';

import { isAway } from './is-away.ts';

/** Told by a stream of the events of the service, in this order: it has begun, an event, whether the service answers, it has ended by itself. */
export type ServiceNews =
  | { readonly news: 'begun' }
  | { readonly news: 'event'; readonly event: Pick<ServiceEventObject, 'model_id' | 'job_id'> }
  | { readonly news: 'answering'; readonly isSo: boolean }
  | { readonly news: 'ended' };

/**
 * Follows what happens in the service from now on, through lost connections, until the signal is aborted or the service refuses. Whatever is read behind
 * `begun` is told to have changed when it does.
 *
 * @returns when it is over; it never fails
 */
export async function followService(signal: AbortSignal, tell: (news: ServiceNews) => void): Promise<void> {
  const { events } = new Trainyard({
    baseUrl: location.origin,
    apiKey: null,
    timeoutMs: 60_000,
    fetch: async (...request) => {
      try {
        const response = await fetch(...request);
        tell({ news: 'answering', isSo: !isAway(response) });
        return response;
      } catch (error) {
        if (!signal.aborted) tell({ news: 'answering', isSo: false });
        throw error;
      }
    },
  });
  try {
    const { data } = await events.list({ limit: 1, order: 'desc' }, { signal, maxRetries: Infinity });
    tell({ news: 'begun' });
    for await (const event of events.watch({}, { signal, after: data[0]?.id ?? '0', maxOutageMs: Infinity })) {
      const { model_id, job_id } = event;
      tell({ news: 'event', event: { model_id, job_id } });
    }
  } catch {
    if (!signal.aborted) tell({ news: 'ended' });
  }
}
