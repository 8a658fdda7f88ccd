import { useSyncExternalStore } from 'react';

import { isAway } from './is-away.ts';

const listeners = new Set<() => void>();
let isAnswering = true;

/** Whether it answered just now, a request of this page or one that somebody else made for it. */
export function noteAnswering(isSo: boolean): void {
  if (isSo === isAnswering) return;
  isAnswering = isSo;
  for (const listener of listeners) listener();
}

/** `fetch`, which notes whether the service answers. A request that was ended here says nothing about it. */
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

/** Whether the service answered the last time that it was asked something. */
export function useIsAnswering(): boolean {
  return useSyncExternalStore(subscribe, () => isAnswering);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
