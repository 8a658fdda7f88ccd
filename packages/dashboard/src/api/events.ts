import type { Query } from '@tanstack/react-query';
import { useEffect } from 'react';

import { noteAnswering, useIsAnswering } from './answering.ts';
import type { ServiceNews } from './follow-service.ts';
import { queryClient } from './query-client.ts';
import { LONG_LISTS } from './rollouts.ts';
import { sessionQuery } from './session.ts';
import { followShared } from './shared-events.ts';
import { whileSeen } from './while-seen.ts';

/** Bursts of events ask again once, ms. */
const PAUSE_MS = 400;
/** How often a service that is away is asked whether it is back, ms. */
const AWAY_MS = 3_000;

type Listener = (news: ServiceNews) => void;
const listeners = new Set<Listener>();

/** Tells what happens in the service while the page is seen. @returns how to end that */
export function onServiceNews(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/**
 * While something is shown and seen, changes in the service change the page: what an event speaks of is asked for again.
 *
 * @param keyId of whoever is signed in
 */
export function useServiceEvents(keyId: string): void {
  useEffect(() => {
    const stale = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | null = null;
    let isFirst = true;
    const refresh = () => {
      timer = null;
      for (const modelId of stale) void queryClient.invalidateQueries({ queryKey: ['models', modelId] });
      stale.clear();
      for (const queryKey of [['models', 'list'], ['jobs']]) void queryClient.invalidateQueries({ queryKey });
    };
    const hear = (told: ServiceNews) => {
      switch (told.news) {
        case 'begun':
          // Nobody was told of what happened between the reading of what is shown and this.
          readAgain({ alsoFailed: !isFirst });
          isFirst = false;
          break;
        case 'event':
          if (told.event.model_id !== null) stale.add(told.event.model_id);
          timer ??= setTimeout(refresh, PAUSE_MS);
          break;
        case 'answering':
          noteAnswering(told.isSo);
          break;
        case 'ended':
          // With the session, mostly: the sign-in page follows from the answer.
          void queryClient.invalidateQueries({ queryKey: sessionQuery.queryKey });
      }
      for (const listener of listeners) listener(told);
    };
    const end = whileSeen((signal) => followShared(keyId, signal, hear));
    return () => {
      end();
      if (timer !== null) clearTimeout(timer);
    };
  }, [keyId]);
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
      readAgain({ alsoFailed: true });
    };
  }, [isThere]);
  return isThere;
}

/** Long lists stay as they were read, unless that failed. @param options.alsoFailed what was refused is asked for once more, too */
function readAgain({ alsoFailed }: { alsoFailed: boolean }): void {
  const isMeant = ({ queryKey, state }: Query) => (state.error === null ? queryKey[0] !== LONG_LISTS : alsoFailed);
  void queryClient.invalidateQueries({ predicate: isMeant });
}
