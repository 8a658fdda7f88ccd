/** Grace after the time limit: when a suspended process resumes, its timers fire before received data are read. */
const MOMENT_MS = 250;

/** @returns a signal that aborts after `ms` and a moment, and a function that cancels it */
export function deadlineAfter(ms: number): { readonly signal: AbortSignal; cancel(): void } {
  const end = new AbortController();
  let timer = setTimeout(() => {
    const abort = () => end.abort(new Error(`nothing was received within ${ms} ms`));
    timer = setTimeout(abort, Math.min(ms, MOMENT_MS));
  }, ms);
  return { signal: end.signal, cancel: () => clearTimeout(timer) };
}
