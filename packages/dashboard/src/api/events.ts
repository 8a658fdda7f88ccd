import type { Query } from '@tanstack/react-query';
import { useEffect } from 'react';

import { useIsAnswering } from './answering.ts';
import { client } from './client.ts';
import { queryClient } from './query-client.ts';
import { LONG_LISTS } from './rollouts.ts';
import { sessionQuery } from './session.ts';
import { whileSeen } from './while-seen.ts';

/** Bursts of events ask again once, ms. */
const PAUSE_MS = 400;
/** How often a service that is away is asked whether it is back, ms. */
const AWAY_MS = 3_000;

/** While something is shown and seen, changes in the service change the page: what an event speaks of is asked for again. */
export function useServiceEvents(): void {
  useEffect(() => {
    const stale = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | null = null;
    let after: string | undefined;
    let wasHidden = false;
    const refresh = () => {
      timer = null;
      for (const modelId of stale) void queryClient.invalidateQueries({ queryKey: ['models', modelId] });
      stale.clear();
      for (const queryKey of [['models', 'list'], ['jobs']]) void queryClient.invalidateQueries({ queryKey });
    };
    // It ends with the page, or with the session: then the sign-in page follows.
    const end = whileSeen(async (signal) => {
      if (wasHidden) readAgain();
      wasHidden = true;
      for await (const event of client.events.watch({}, { signal, after, maxReconnects: Infinity })) {
        after = event.id;
        if (event.model_id !== null) stale.add(event.model_id);
        timer ??= setTimeout(refresh, PAUSE_MS);
      }
    });
    return () => {
      end();
      if (timer !== null) clearTimeout(timer);
    };
  }, []);
}

/**
 * Whether the service answers. While it does not it is asked again and again, and when it does all that is shown is read once more: nobody was told of what
 * happened meanwhile.
 */
export function useServiceIsThere(): boolean {
  const isThere = useIsAnswering();
  useEffect(() => {
    if (isThere) return;
    const timer = setInterval(() => {
      void queryClient.invalidateQueries({ queryKey: sessionQuery.queryKey });
    }, AWAY_MS);
    return () => {
      clearInterval(timer);
      readAgain();
    };
  }, [isThere]);
  return isThere;
}

/** Long lists stay as they were read, unless that failed. */
function readAgain(): void {
  const isMeant = ({ queryKey, state }: Query) => queryKey[0] !== LONG_LISTS || state.error !== null;
  void queryClient.invalidateQueries({ predicate: isMeant });
}
