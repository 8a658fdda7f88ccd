import { useSyncExternalStore } from 'react';

import { client } from '../api/client.ts';

const TICK_MS = 5_000;
const listeners = new Set<() => void>();
let now = client.now();
let timer: ReturnType<typeof setInterval> | null = null;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  // The clock was stopped while it had no listeners.
  if (timer === null) now = client.now();
  timer ??= setInterval(() => {
    now = client.now();
    for (const notify of listeners) notify();
  }, TICK_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0 || timer === null) return;
    clearInterval(timer);
    timer = null;
  };
}

/** The service's time in ms, updated every few seconds; one clock for the whole page. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}
