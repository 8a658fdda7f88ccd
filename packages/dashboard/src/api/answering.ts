import { useSyncExternalStore } from 'react';

/** Statuses that proxies answer in place of a service that they do not reach. */
const AWAY_STATUSES = [502, 503, 504];

const listeners = new Set<() => void>();
let isAnswering = true;

function note(isSo: boolean): void {
  if (isSo === isAnswering) return;
  isAnswering = isSo;
  for (const listener of listeners) listener();
}

/** `fetch`, which notes whether the service answers. A request that was ended here says nothing about it. */
export async function notingFetch(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
  try {
    const response = await fetch(input, init);
    // The service names each of its answers, also those that refuse.
    note(!AWAY_STATUSES.includes(response.status) || response.headers.has('x-request-id'));
    return response;
  } catch (error) {
    if (init?.signal?.aborted !== true) note(false);
    throw error;
  }
}

/** Whether the service answered the last time that it was asked something. */
export function useIsAnswering(): boolean {
  return useSyncExternalStore(subscribe, () => isAnswering);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
