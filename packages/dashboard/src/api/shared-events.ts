import { followService, type ServiceNews } from './follow-service.ts';

const WORKER_URL = document.querySelector<HTMLMetaElement>('meta[name=events-worker]')?.content ?? '';

/**
 * Follows what happens in the service by the stream that all windows of the browser share, or by one of its own where the browser lets them share nothing.
 *
 * @param keyId of whoever is signed in: nobody is told what somebody else may see
 * @returns when the signal is aborted, or the stream has ended
 */
export async function followShared(
  keyId: string,
  signal: AbortSignal,
  tell: (news: ServiceNews) => void,
): Promise<void> {
  if (typeof SharedWorker === 'undefined') return await followService(signal, tell);
  const worker = new SharedWorker(WORKER_URL, 'trainyard-events');
  const { port } = worker;
  const isShared = await new Promise<boolean>((resolve) => {
    // The worker could not be loaded.
    worker.addEventListener('error', () => resolve(false));
    signal.addEventListener('abort', () => {
      // At once: of a window that is being closed nothing that waits is done any more, and the worker would follow for it as long as another window is open.
      port.postMessage(null);
      resolve(true);
    });
    port.addEventListener('message', ({ data }: MessageEvent<ServiceNews>) => {
      if (signal.aborted) return;
      tell(data);
      if (data.news === 'ended') resolve(true);
    });
    port.start();
    port.postMessage(keyId);
  });
  port.close();
  if (!isShared && !signal.aborted) await followService(signal, tell);
}
