import { useEffect, useState } from 'react';
import type { TrainingEventObject } from '@trainyard/sdk';

import { client } from './client.ts';
import { onServiceNews } from './events.ts';
import { whileVisible } from './while-visible.ts';

/** Minimum time between updates of the list, ms: events come in bursts. */
const PAUSE_MS = 250;
/** Delay before reading events again after a failure, ms. */
const AGAIN_MS = 3_000;
const PAGE_SIZE = 100;

/**
 * All events of a job, oldest first. The list grows while the job runs. The service's event stream reports new
 * ones, so pages of jobs need no streams of their own.
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
    const readMore = () => {
      hasNews = true;
      wake();
    };
    const end = onServiceNews((news) => {
      if (news.news === 'begun' || (news.news === 'event' && news.event.job_id === jobId)) readMore();
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
    // The page shows the error of an unreadable job at its top.
    const leave = whileVisible(async (signal) => {
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
