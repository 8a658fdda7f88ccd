/**
 * Follows something while the page is in sight, and once more when it is again: what nobody sees need not be asked for.
 *
 * @param follow ends when its signal is aborted; what it throws is nobody's
 * @returns how to end it for good
 */
export function whileSeen(follow: (signal: AbortSignal) => Promise<void>): () => void {
  let stop: AbortController | null = null;
  const set = (isSeen: boolean) => {
    if (isSeen === (stop !== null)) return;
    stop?.abort();
    stop = isSeen ? new AbortController() : null;
    if (stop !== null) void follow(stop.signal).catch(() => undefined);
  };
  const change = () => set(document.visibilityState !== 'hidden');
  // A page that is left is not always hidden first, and may be kept and come back.
  const leave = () => set(false);
  document.addEventListener('visibilitychange', change);
  addEventListener('pagehide', leave);
  addEventListener('pageshow', change);
  change();
  return () => {
    document.removeEventListener('visibilitychange', change);
    removeEventListener('pagehide', leave);
    removeEventListener('pageshow', change);
    stop?.abort();
  };
}
