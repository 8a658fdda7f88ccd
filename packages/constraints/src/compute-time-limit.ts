import type { Worker } from 'node:worker_threads';

/** A thread that gets no more than this part of a core is not waited for any longer. */
const LEAST_SHARE_OF_CORE = 0.1;

/**
 * Calls back once, when the thread has computed for `limitMs` since now, or when ten times that has passed. Computing is counted, not
 * waiting for a core: how busy the machine is says nothing about the work.
 *
 * @returns what takes the call back
 */
export function afterComputing(worker: Worker, limitMs: number, callback: () => void): () => void {
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  const cancel = (): void => {
    isOver = true;
    clearTimeout(timer);
    clearTimeout(lastCall);
  };
  const end = (): void => {
    cancel();
    callback();
  };
  const lastCall = setTimeout(end, limitMs / LEAST_SHARE_OF_CORE);
  const usedAtStart = computedMs(worker);
  const look = async (): Promise<void> => {
    const leftMs = limitMs - (await computedMs(worker)) + (await usedAtStart);
    if (isOver) return;
    if (leftMs <= 0) end();
    else timer = setTimeout(() => void look(), Math.ceil(leftMs));
  };
  timer = setTimeout(() => void look(), limitMs);
  return cancel;
}

/** Of the thread so far. 0 once it has ended: who waits for it hears of that elsewhere. */
async function computedMs(worker: Worker): Promise<number> {
  try {
    const { user, system } = await worker.cpuUsage();
    return (user + system) / 1000;
  } catch {
    return 0;
  }
}
