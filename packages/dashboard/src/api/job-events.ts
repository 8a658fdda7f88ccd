import { useEffect, useState } from 'react';
import type { TrainingEventObject } from '@trainyard/sdk';

import { client } from './client.ts';
import { whileSeen } from './while-seen.ts';

/** Events come in bursts; the list grows at most so often, ms. */
const PAUSE_MS = 250;

/** Everything that happened in a job, oldest first; it grows while the job runs, and stays when it has ended. */
export function useJobEvents(jobId: string): readonly TrainingEventObject[] {
  const [events, setEvents] = useState<readonly TrainingEventObject[]>([]);
  useEffect(() => {
    let fresh: TrainingEventObject[] = [];
    let timer: ReturnType<typeof setTimeout> | null = null;
    let after: string | undefined;
    let isOver = false;
    setEvents([]);
    const flush = () => {
      const added = fresh;
      timer = null;
      fresh = [];
      setEvents((before) => [...before, ...added]);
    };
    // A job that cannot be read says so by itself, at the top of its page.
    const end = whileSeen(async (signal) => {
      if (isOver) return;
      for await (const event of client.trainingJobs.watch(jobId, { signal, after, maxReconnects: Infinity })) {
        after = event.id;
        fresh.push(event);
        timer ??= setTimeout(flush, PAUSE_MS);
      }
      isOver = true;
    });
    return () => {
      end();
      if (timer !== null) clearTimeout(timer);
    };
  }, [jobId]);
  return events;
}
