import { useEffect } from 'react';

import { queryClient } from './query-client.ts';

/** Names that events of the service have; a stream tells them apart by name. */
const EVENT_TYPES = [
  'model_created',
  'model_deleted',
  'checkpoint_created',
  'checkpoints_deleted',
  'log_recorded',
  'job_queued',
  'job_started',
  'job_paused',
  'job_resumed',
  'training_started',
  'gradient_step',
  'training_ended',
  'training_failed',
] as const;

/** Bursts of events ask again once. */
const PAUSE_MS = 400;

/** While something is shown, what changes in the service changes on the page: what an event speaks of is asked for again. */
export function useServiceEvents(): void {
  useEffect(() => {
    const stale = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | null = null;
    const refresh = () => {
      timer = null;
      for (const modelId of stale) void queryClient.invalidateQueries({ queryKey: ['models', modelId] });
      stale.clear();
      for (const queryKey of [['models', 'list'], ['jobs']]) void queryClient.invalidateQueries({ queryKey });
    };
    const source = new EventSource('/v1/preview/events');
    const notice = (event: MessageEvent<string>) => {
      const { model_id: modelId } = JSON.parse(event.data) as { model_id: string | null };
      if (modelId !== null) stale.add(modelId);
      timer ??= setTimeout(refresh, PAUSE_MS);
    };
    for (const type of EVENT_TYPES) source.addEventListener(type, notice);
    return () => {
      source.close();
      if (timer !== null) clearTimeout(timer);
    };
  }, []);
}
