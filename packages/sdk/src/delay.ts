/** @throws the signal's reason when it is aborted meanwhile */
export async function delay(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  const waited = Promise.withResolvers<void>();
  const timer = setTimeout(waited.resolve, ms);
  const onAbort = () => waited.reject(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    await waited.promise;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}
