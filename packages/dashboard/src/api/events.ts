import { useEffect } from 'react';

import { client } from './client.ts';
import { queryClient } from './query-client.ts';

/** Bursts of events ask again once, ms. */
const PAUSE_MS = 400;

/** While something is shown, changes in the service change the page: what an event speaks of is asked for again. */
export function useServiceEvents(): void {
  useEffect(() => {
    const stop = new AbortController();
    const stale = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | null = null;
    const refresh = () => {
      timer = null;
      for (const modelId of stale) void queryClient.invalidateQueries({ queryKey: ['models', modelId] });
      stale.clear();
      for (const queryKey of [['models', 'list'], ['jobs']]) void queryClient.invalidateQueries({ queryKey });
    };
    const follow = async () => {
      for await (const { model_id: modelId } of client.events.watch({}, { signal: stop.signal, maxReconnects: 1e6 })) {
        if (modelId !== null) stale.add(modelId);
        timer ??= setTimeout(refresh, PAUSE_MS);
      }
    };
    // It ends with the page, or with the session: then the next answer leads to the sign-in page.
    void follow().catch(() => undefined);
    return () => {
      stop.abort();
      if (timer !== null) clearTimeout(timer);
    };
  }, []);
}
