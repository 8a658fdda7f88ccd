import { TrainyardConnectionError } from './errors.ts';

/**
 * Wraps a response so that its body fails like a call: with the reason of an aborted `signal`, even if the
 * body ignores it, else with a {@link TrainyardConnectionError}. `fetch` has other errors for both, and
 * replaces some reasons.
 *
 * @param signal of the request
 */
export function fileAnswer(response: Response, baseUrl: string, signal: AbortSignal | undefined): Response {
  if (response.body === null) return response;
  const reader = response.body.getReader();
  // The body may have failed already.
  const leave = (reason: unknown) => reader.cancel(reason).catch(() => undefined);
  let stop = () => {};
  const forget = () => signal?.removeEventListener('abort', stop);
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      start(controller) {
        stop = () => {
          controller.error(signal?.reason);
          void leave(signal?.reason);
        };
        signal?.addEventListener('abort', stop, { once: true });
      },
      async pull(controller) {
        const { value, done } = await reader.read().catch((error: unknown) => {
          forget();
          throw new TrainyardConnectionError(baseUrl, error);
        });
        // The stream has failed and accepts nothing more.
        if (signal?.aborted) return;
        if (!done) return controller.enqueue(value);
        forget();
        controller.close();
      },
      async cancel(reason) {
        forget();
        await leave(reason);
      },
    },
    // Reads from the connection on demand and not ahead.
    { highWaterMark: 0 },
  );
  const { status, statusText, headers, url } = response;
  // A constructed response has no URL.
  return Object.defineProperty(new Response(body, { status, statusText, headers }), 'url', { value: url });
}
