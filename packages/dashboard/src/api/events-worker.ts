/**
 * One stream of the events of the service for all windows of a browser, which has six connections to an address for all of them together: a stream in each
 * window would leave the seventh without a connection to load anything by. It lives as long as one of the windows is open.
 */
import { followService, type ServiceNews } from './follow-service.ts';

/** A stream as one signed-in key, and the windows that it is told to. */
interface SharedStream {
  readonly windows: Set<MessagePort>;
  readonly stop: AbortController;
  /** The last of each kind that a window which comes later has to know. */
  readonly said: Map<'begun' | 'answering', ServiceNews>;
}

const streams = new Map<string, SharedStream>();

addEventListener('connect', (event) => {
  const window = (event as MessageEvent).ports[0]!;
  let keyId: string | null = null;
  const leave = () => {
    if (keyId !== null) leaveStream(keyId, window);
    keyId = null;
  };
  // A window says whom it shows, or null where it is seen no more.
  window.addEventListener('message', ({ data }: MessageEvent<string | null>) => {
    leave();
    keyId = data;
    if (keyId !== null) joinStream(keyId, window);
  });
  // Newer browsers tell of windows that went without a word.
  window.addEventListener('close', leave);
  window.start();
});

function joinStream(keyId: string, window: MessagePort): void {
  const stream = streams.get(keyId) ?? beginStream(keyId);
  stream.windows.add(window);
  for (const news of stream.said.values()) window.postMessage(news);
}

function leaveStream(keyId: string, window: MessagePort): void {
  const stream = streams.get(keyId);
  if (stream?.windows.delete(window) !== true || stream.windows.size > 0) return;
  streams.delete(keyId);
  stream.stop.abort();
}

function beginStream(keyId: string): SharedStream {
  const stream: SharedStream = { windows: new Set(), stop: new AbortController(), said: new Map() };
  streams.set(keyId, stream);
  void followService(stream.stop.signal, (news) => {
    if (news.news === 'begun' || news.news === 'answering') stream.said.set(news.news, news);
    // Whoever comes next tries anew.
    if (news.news === 'ended') streams.delete(keyId);
    for (const window of stream.windows) window.postMessage(news);
  });
  return stream;
}
