/**
 * Follows something while the page is in sight, and once more when it is again: what nobody sees need not be asked for.
 *
 * @param follow ends when its signal is aborted; what it throws is nobody's
 * @returns how to end it for good
 */
export function whileSeen(follow: (signal: AbortSignal) => Promise<void>): () => void {
  let stop: AbortController | null = null;
  let isLeft = false;
  const set = (isSeen: boolean) => {
    if (isSeen === (stop !== null)) return;
    stop?.abort();
    stop = isSeen ? new AbortController() : null;
    if (stop !== null) void follow(stop.signal).catch(() => undefined);
  };
  const change = () => set(!isLeft && document.visibilityState !== 'hidden');
  // A page that is left is not always hidden first, hears of its visibility behind that, and may be kept and come back. What it began meanwhile would have no
  // end: nobody is told that it is gone.
  const leave = () => {
    isLeft = true;
    change();
  };
  const comeBack = () => {
    isLeft = false;
    change();
  };
  document.addEventListener('visibilitychange', change);
  addEventListener('pagehide', leave);
  addEventListener('pageshow', comeBack);
  change();
  return () => {
    document.removeEventListener('visibilitychange', change);
    removeEventListener('pagehide', leave);
    removeEventListener('pageshow', comeBack);
    stop?.abort();
  };
}
