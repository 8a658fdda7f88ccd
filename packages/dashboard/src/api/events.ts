import type { Query } from '@tanstack/react-query';
import { useEffect } from 'react';

import { noteAnswering, useIsAnswering } from './answering.ts';
import type { ServiceNews } from './service-news/follow-service.ts';
import { queryClient } from './query-client.ts';
import { LONG_LISTS } from './rollouts.ts';
import { sessionQuery } from './session.ts';
import { followShared } from './service-news/shared-events.ts';
import { whileVisible } from './while-visible.ts';

/** Pause before refetching, which merges bursts of events, ms. */
const PAUSE_MS = 400;
/** Interval for asking an unreachable service, ms. */
const AWAY_MS = 3_000;

type Listener = (news: ServiceNews) => void;
const listeners = new Set<Listener>();

/** Calls the listener for news of the service while the page is visible. @returns a function that stops it */
export function onServiceNews(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/**
 * Refetches data when an event about it arrives, while the page is visible.
 *
 * @param keyId id of the signed-in key; null if it may not read events
 */
export function useServiceEvents(keyId: string | null): void {
  useEffect(() => {
    if (keyId === null) return;
    const stale = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | null = null;
    let isFirst = true;
    const refresh = () => {
      timer = null;
      for (const modelId of stale) void queryClient.invalidateQueries({ queryKey: ['models', modelId] });
      stale.clear();
      for (const queryKey of [['models', 'list'], ['models', 'served'], ['jobs']])
        void queryClient.invalidateQueries({ queryKey });
    };
    const onNews = (news: ServiceNews) => {
      switch (news.news) {
        case 'begun':
          // Events between the first reading and the start of the stream were missed.
          refetch({ alsoFailed: !isFirst });
          isFirst = false;
          break;
        case 'event':
          if (news.event.model_id !== null) stale.add(news.event.model_id);
          timer ??= setTimeout(refresh, PAUSE_MS);
          break;
        case 'answering':
          noteAnswering(news.isSo);
          break;
        case 'ended':
          // Usually the session has ended: the sign-in page follows from the answer.
          void queryClient.invalidateQueries({ queryKey: sessionQuery.queryKey });
      }
      for (const listener of listeners) listener(news);
    };
    const end = whileVisible((signal) => followShared(keyId, signal, onNews));
    return () => {
      end();
      if (timer !== null) clearTimeout(timer);
    };
  }, [keyId]);
}

/**
 * Returns whether the service answers. If not, polls it, and refetches all shown data once it answers: events
 * were missed.
 */
export function useIsServiceUp(): boolean {
  const isUp = useIsAnswering();
  useEffect(() => {
    if (isUp) return;
    const timer = setInterval(() => {
      void queryClient.invalidateQueries({ queryKey: sessionQuery.queryKey });
    }, AWAY_MS);
    return () => {
      clearInterval(timer);
      refetch({ alsoFailed: true });
    };
  }, [isUp]);
  return isUp;
}

/**
 * Refetches everything but long lists, and large answers that rarely change.
 *
 * @param options.alsoFailed also refetches failed requests
 */
function refetch({ alsoFailed }: { alsoFailed: boolean }): void {
  const isMeant = ({ queryKey, state, meta }: Query) =>
    state.error === null ? queryKey[0] !== LONG_LISTS && meta?.['isSteady'] !== true : alsoFailed;
  void queryClient.invalidateQueries({ predicate: isMeant });
}
