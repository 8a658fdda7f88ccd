import { useEffect, useState } from 'react';
import type { TrainingEventObject } from '@trainyard/sdk';

/** Types that events of a training job have. */
const TYPES = ['training_started', 'gradient_step', 'warning', 'training_ended', 'training_failed'] as const;
/** Events come in bursts; the list grows at most so often, ms. */
const PAUSE_MS = 250;

/** Everything that happened in a job, oldest first; it grows while the job runs, and stays when it has ended. */
export function useJobEvents(jobId: string): readonly TrainingEventObject[] {
  const [events, setEvents] = useState<readonly TrainingEventObject[]>([]);
  useEffect(() => {
    let fresh: TrainingEventObject[] = [];
    let timer: ReturnType<typeof setTimeout> | null = null;
    setEvents([]);
    const flush = () => {
      const added = fresh;
      timer = null;
      fresh = [];
      setEvents((before) => [...before, ...added]);
    };
    // A browser that lost the connection goes on behind the last event by itself.
    const source = new EventSource(`/v1/preview/training-jobs/${encodeURIComponent(jobId)}/events`);
    const take = (event: MessageEvent<string>) => {
      fresh.push(JSON.parse(event.data) as TrainingEventObject);
      timer ??= setTimeout(flush, PAUSE_MS);
      if (event.type === 'training_ended' || event.type === 'training_failed') source.close();
    };
    for (const type of TYPES) source.addEventListener(type, take);
    return () => {
      source.close();
      if (timer !== null) clearTimeout(timer);
    };
  }, [jobId]);
  return events;
}
