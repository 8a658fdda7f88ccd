/**
 * One event stream for all windows of a browser. Browsers allow six connections per address: with a stream in
 * each window, the seventh window could not load anything. The worker lives as long as one of the windows is
 * open.
 */
import { followService, type ServiceNews } from './follow-service.ts';

/** Stream of one signed-in key, and the windows that receive it. */
interface SharedStream {
  readonly windows: Set<MessagePort>;
  readonly stop: AbortController;
  /** Latest news of each kind, replayed to windows that join later. */
  readonly latest: Map<'begun' | 'answering', ServiceNews>;
}

const streams = new Map<string, SharedStream>();

addEventListener('connect', (event) => {
  const window = (event as MessageEvent).ports[0]!;
  let keyId: string | null = null;
  const leave = () => {
    if (keyId !== null) leaveStream(keyId, window);
    keyId = null;
  };
  // A window sends its key id, or null when it is hidden.
  window.addEventListener('message', ({ data }: MessageEvent<string | null>) => {
    leave();
    keyId = data;
    if (keyId !== null) joinStream(keyId, window);
  });
  // Newer browsers report windows that closed without a message.
  window.addEventListener('close', leave);
  window.start();
});

function joinStream(keyId: string, window: MessagePort): void {
  const stream = streams.get(keyId) ?? beginStream(keyId);
  stream.windows.add(window);
  for (const news of stream.latest.values()) window.postMessage(news);
}

function leaveStream(keyId: string, window: MessagePort): void {
  const stream = streams.get(keyId);
  if (stream?.windows.delete(window) !== true || stream.windows.size > 0) return;
  streams.delete(keyId);
  stream.stop.abort();
}

function beginStream(keyId: string): SharedStream {
  const stream: SharedStream = { windows: new Set(), stop: new AbortController(), latest: new Map() };
  streams.set(keyId, stream);
  void followService(stream.stop.signal, (news) => {
    if (news.news === 'begun' || news.news === 'answering') stream.latest.set(news.news, news);
    // The next window starts a new stream.
    if (news.news === 'ended') streams.delete(keyId);
    for (const window of stream.windows) window.postMessage(news);
  });
  return stream;
}
