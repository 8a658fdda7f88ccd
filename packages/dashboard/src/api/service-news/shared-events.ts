import { followService, type ServiceNews } from './follow-service.ts';

const WORKER_URL = document.querySelector<HTMLMetaElement>('meta[name=events-worker]')?.content ?? '';

/**
 * Follows the service's events on the stream that all windows of the browser share, or on its own stream if
 * the browser has no shared workers.
 *
 * @param keyId id of the signed-in key; keys do not share streams
 * @returns when the signal is aborted or the stream has ended
 */
export async function followShared(
  keyId: string,
  signal: AbortSignal,
  onNews: (news: ServiceNews) => void,
): Promise<void> {
  if (typeof SharedWorker === 'undefined') return await followService(signal, onNews);
  const worker = new SharedWorker(WORKER_URL, 'trainyard-events');
  const { port } = worker;
  const isShared = await new Promise<boolean>((resolve) => {
    // The worker failed to load.
    worker.addEventListener('error', () => resolve(false));
    signal.addEventListener('abort', () => {
      // Sent at once: a closing window runs no asynchronous work, and the worker would keep following for it.
      port.postMessage(null);
      resolve(true);
    });
    port.addEventListener('message', ({ data }: MessageEvent<ServiceNews>) => {
      if (signal.aborted) return;
      onNews(data);
      if (data.news === 'ended') resolve(true);
    });
    port.start();
    port.postMessage(keyId);
  });
  port.close();
  if (!isShared && !signal.aborted) await followService(signal, onNews);
}
