/**
 * Follows something while the page is in sight, and once more when it is again. A browser has six connections to an address, for all tabs together, and a
 * stream holds one: tabs that nobody sees would keep others from loading.
 *
 * @param follow ends when its signal is aborted; what it throws is nobody's
 * @returns how to end it for good
 */
export function whileSeen(follow: (signal: AbortSignal) => Promise<void>): () => void {
  let stop: AbortController | null = null;
  const change = () => {
    const isSeen = document.visibilityState !== 'hidden';
    if (isSeen === (stop !== null)) return;
    stop?.abort();
    stop = isSeen ? new AbortController() : null;
    if (stop !== null) void follow(stop.signal).catch(() => undefined);
  };
  document.addEventListener('visibilitychange', change);
  change();
  return () => {
    document.removeEventListener('visibilitychange', change);
    stop?.abort();
  };
}
