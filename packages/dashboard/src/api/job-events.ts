import { useEffect, useState } from 'react';
import type { TrainingEventObject } from '@trainyard/sdk';

import { client } from './client.ts';
import { onServiceNews } from './events.ts';
import { whileSeen } from './while-seen.ts';

/** Events come in bursts; the list grows at most so often, ms. */
const PAUSE_MS = 250;
/** How soon it is tried again where events could not be read, ms. */
const AGAIN_MS = 3_000;
const PAGE_SIZE = 100;

/**
 * Everything that happened in a job, oldest first; it grows while the job runs, and stays when it has ended. The stream of the service says when there is
 * more, so that windows of jobs hold no streams of their own.
 */
export function useJobEvents(jobId: string): readonly TrainingEventObject[] {
  const [events, setEvents] = useState<readonly TrainingEventObject[]>([]);
  useEffect(() => {
    let fresh: TrainingEventObject[] = [];
    let timer: ReturnType<typeof setTimeout> | null = null;
    let after: string | undefined;
    let isOver = false;
    let hasNews = true;
    let wake = () => {};
    setEvents([]);
    const flush = () => {
      const added = fresh;
      timer = null;
      fresh = [];
      setEvents((before) => [...before, ...added]);
    };
    const readOn = () => {
      hasNews = true;
      wake();
    };
    const end = onServiceNews((told) => {
      if (told.news === 'begun' || (told.news === 'event' && told.event.job_id === jobId)) readOn();
    });
    const read = async (signal: AbortSignal) => {
      for (let hasMore = true; hasMore;) {
        const query = { limit: PAGE_SIZE, ...(after === undefined ? {} : { after }) };
        const page = await client.trainingJobs.events(jobId, query, { signal });
        hasMore = page.has_more;
        after = page.last_id ?? after;
        isOver ||= page.data.some(({ type }) => type === 'training_ended' || type === 'training_failed');
        fresh.push(...page.data);
        if (page.data.length > 0) timer ??= setTimeout(flush, PAUSE_MS);
      }
    };
    // A job that cannot be read says so by itself, at the top of its page.
    const leave = whileSeen(async (signal) => {
      signal.addEventListener('abort', () => wake());
      hasNews = true;
      while (!isOver && !signal.aborted) {
        if (hasNews) {
          hasNews = false;
          const isRead = await read(signal).then(
            () => true,
            () => false,
          );
          hasNews ||= !isRead;
          await pause(isRead ? PAUSE_MS : AGAIN_MS);
        } else {
          await new Promise<void>((resolve) => (wake = resolve));
        }
      }
    });
    return () => {
      end();
      leave();
      if (timer !== null) clearTimeout(timer);
    };
  }, [jobId]);
  return events;
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
