/** One of {@link RequestsInHand}. */
export interface RequestInHand {
  /** Aborts with the request's own signal, or with all requests. */
  readonly signal: AbortSignal;
  /** Called at its end: frees it. */
  release(): void;
}

/**
 * Requests that end with their engine. `AbortSignal.any` would leave a weak reference per request with the
 * engine's signal until garbage collection, and adding a listener searches the signal's list.
 */
export class RequestsInHand {
  readonly #ends = new Set<AbortController>();
  #closedFor: Error | null = null;

  begin(own: AbortSignal): RequestInHand {
    const end = new AbortController();
    if (own.aborted) end.abort(own.reason);
    else if (this.#closedFor !== null) end.abort(this.#closedFor);
    const onAbort = (): void => end.abort(own.reason);
    own.addEventListener('abort', onAbort);
    this.#ends.add(end);
    return {
      signal: end.signal,
      release: () => {
        own.removeEventListener('abort', onAbort);
        this.#ends.delete(end);
      },
    };
  }

  /** Ends current requests. */
  abort(reason: Error): void {
    for (const end of this.#ends) end.abort(reason);
  }

  /** Ends current and future requests. */
  close(reason: Error): void {
    this.#closedFor ??= reason;
    this.abort(reason);
  }
}
