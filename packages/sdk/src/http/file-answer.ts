import { TrainyardConnectionError } from './errors.ts';

/**
 * An answer whose body fails as calls fail: with what `signal` was aborted with, also where the body does not listen to it, else with a
 * {@link TrainyardConnectionError}. `fetch` has errors of its own for both, and takes some reasons for others.
 *
 * @param signal what the request was made with
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
        // It has failed, and takes nothing more.
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
    // Read from the connection as it is read from here, and not ahead.
    { highWaterMark: 0 },
  );
  const { status, statusText, headers, url } = response;
  // One that is made here has none.
  return Object.defineProperty(new Response(body, { status, statusText, headers }), 'url', { value: url });
}
