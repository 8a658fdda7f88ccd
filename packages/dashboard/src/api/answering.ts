import { useSyncExternalStore } from 'react';

import { isAway } from './service-news/is-away.ts';

const listeners = new Set<() => void>();
let isAnswering = true;

/** Records the outcome of the last request of this page or of the shared worker. */
export function noteAnswering(isSo: boolean): void {
  if (isSo === isAnswering) return;
  isAnswering = isSo;
  for (const listener of listeners) listener();
}

/** `fetch` that records whether the service answers. A request aborted here is not counted. */
export async function notingFetch(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
  try {
    const response = await fetch(input, init);
    noteAnswering(!isAway(response));
    return response;
  } catch (error) {
    if (init?.signal?.aborted !== true) noteAnswering(false);
    throw error;
  }
}

/** Returns whether the service answered the last request. */
export function useIsAnswering(): boolean {
  return useSyncExternalStore(subscribe, () => isAnswering);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
