import { useEffect, useState } from 'react';
import type { TrainingEventObject } from '@trainyard/sdk';

import { client } from './client.ts';

/** Events come in bursts; the list grows at most so often, ms. */
const PAUSE_MS = 250;

/** Everything that happened in a job, oldest first; it grows while the job runs, and stays when it has ended. */
export function useJobEvents(jobId: string): readonly TrainingEventObject[] {
  const [events, setEvents] = useState<readonly TrainingEventObject[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    let fresh: TrainingEventObject[] = [];
    let timer: ReturnType<typeof setTimeout> | null = null;
    setEvents([]);
    const flush = () => {
      const added = fresh;
      timer = null;
      fresh = [];
      setEvents((before) => [...before, ...added]);
    };
    const follow = async () => {
      for await (const event of client.trainingJobs.watch(jobId, { signal: stop.signal })) {
        fresh.push(event);
        timer ??= setTimeout(flush, PAUSE_MS);
      }
    };
    // A job that cannot be read says so by itself, at the top of its page.
    void follow().catch(() => undefined);
    return () => {
      stop.abort();
      if (timer !== null) clearTimeout(timer);
    };
  }, [jobId]);
  return events;
}
