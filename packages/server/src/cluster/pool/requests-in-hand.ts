/** One of {@link RequestsInHand}. */
export interface RequestInHand {
  /** Aborted with the request's own, or with all that are in hand. */
  readonly signal: AbortSignal;
  /** It has ended: nothing of it is kept. */
  release(): void;
}

/**
 * Requests that end with the engine that has them. `AbortSignal.any` of a request's signal and one of the engine's would leave a weak reference with the latter for
 * each, until the garbage collector has told it, and listeners of one signal are a list that each new one is looked for in.
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

  /** Ends those that are in hand. */
  abort(reason: Error): void {
    for (const end of this.#ends) end.abort(reason);
  }

  /** Ends those that are in hand, and each that begins from now on. */
  close(reason: Error): void {
    this.#closedFor ??= reason;
    this.abort(reason);
  }
}
