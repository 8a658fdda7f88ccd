/**
 * Calls `follow` whenever the page becomes visible, and aborts it when the page is hidden.
 *
 * @param follow ends when its signal is aborted; its errors are ignored
 * @returns a function that stops it for good
 */
export function whileVisible(follow: (signal: AbortSignal) => Promise<void>): () => void {
  let stop: AbortController | null = null;
  let isLeft = false;
  const set = (isVisible: boolean) => {
    if (isVisible === (stop !== null)) return;
    stop?.abort();
    stop = isVisible ? new AbortController() : null;
    if (stop !== null) void follow(stop.signal).catch(() => undefined);
  };
  const change = () => set(!isLeft && document.visibilityState !== 'hidden');
  // A page that is navigated away is not always hidden first, and may be restored later. Work started
  // meanwhile would never end.
  const leave = () => {
    isLeft = true;
    change();
  };
  const restore = () => {
    isLeft = false;
    change();
  };
  document.addEventListener('visibilitychange', change);
  addEventListener('pagehide', leave);
  addEventListener('pageshow', restore);
  change();
  return () => {
    document.removeEventListener('visibilitychange', change);
    removeEventListener('pagehide', leave);
    removeEventListener('pageshow', restore);
    stop?.abort();
  };
}
