import { Trainyard, type ServiceEventObject } from '@trainyard/sdk';

import { isAway } from './is-away.ts';

/**
 * News of an event stream, in this order: it has started, an event, whether the service answers, it has ended
 * by itself.
 */
export type ServiceNews =
  | { readonly news: 'begun' }
  | { readonly news: 'event'; readonly event: Pick<ServiceEventObject, 'model_id' | 'job_id'> }
  | { readonly news: 'answering'; readonly isSo: boolean }
  | { readonly news: 'ended' };

/**
 * Follows the events of the service, reconnecting, until the signal is aborted or the service refuses. Events
 * cover every change after `begun`.
 *
 * @returns when the stream is over; never fails
 */
export async function followService(signal: AbortSignal, onNews: (news: ServiceNews) => void): Promise<void> {
  const { events } = new Trainyard({
    baseUrl: location.origin,
    apiKey: null,
    timeoutMs: 60_000,
    fetch: async (...request) => {
      try {
        const response = await fetch(...request);
        onNews({ news: 'answering', isSo: !isAway(response) });
        return response;
      } catch (error) {
        if (!signal.aborted) onNews({ news: 'answering', isSo: false });
        throw error;
      }
    },
  });
  try {
    const { data } = await events.list({ limit: 1, order: 'desc' }, { signal, maxRetries: Infinity });
    onNews({ news: 'begun' });
    for await (const event of events.watch({}, { signal, after: data[0]?.id ?? '0', maxOutageMs: Infinity })) {
      const { model_id, job_id } = event;
      onNews({ news: 'event', event: { model_id, job_id } });
    }
  } catch {
    if (!signal.aborted) onNews({ news: 'ended' });
  }
}
