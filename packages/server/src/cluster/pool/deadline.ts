/**
 * Grace after the time limit: when a stalled process resumes, its timers fire before received data are read.
 */
const MOMENT_MS = 250;

/** @returns a signal that aborts after `ms`, and a function that cancels it */
export function deadlineAfter(ms: number): { readonly signal: AbortSignal; cancel(): void } {
  const end = new AbortController();
  let timer = setTimeout(() => {
    timer = setTimeout(() => end.abort(new Error(`nothing was received within ${ms} ms`)), MOMENT_MS);
  }, ms);
  return { signal: end.signal, cancel: () => clearTimeout(timer) };
}
