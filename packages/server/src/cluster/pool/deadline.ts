/** A process that did not run for a while has its timers before what came in meanwhile: that gets so long. */
const MOMENT_MS = 250;

/** @returns a signal that is aborted after so long, and what cancels it */
export function deadlineAfter(ms: number): { readonly signal: AbortSignal; cancel(): void } {
  const end = new AbortController();
  let timer = setTimeout(() => {
    timer = setTimeout(() => end.abort(new Error(`nothing was received within ${ms} ms`)), MOMENT_MS);
  }, ms);
  return { signal: end.signal, cancel: () => clearTimeout(timer) };
}
