/** Requests with an `Idempotency-Key`, and their answers. */
export interface Idempotency {
  /**
   * Claims `(keyId, key)` for this request, or returns its state. Answers are kept for 24 hours. A claim
   * belongs to its process for the life of the process plus a minute. A write with the answer (`completes`)
   * fails with `store.busy` if another process has claimed it since.
   */
  begin(request: { keyId: string; key: string; requestHash: string }): Promise<IdempotentState>;
  /** Keeps the answer for repeats. Has no effect if the record is gone or complete. */
  complete(answer: IdempotentAnswer): Promise<void>;
  /**
   * Frees the key after a failure without effect, so that a repeat is tried again. A complete record stays.
   *
   * @returns false if the request is known to belong to another process by now, or to be answered
   */
  abandon(request: { keyId: string; key: string }): Promise<boolean>;
}

/** The answer to a request with an `Idempotency-Key`, kept for its repeats. */
export interface IdempotentAnswer {
  keyId: string;
  key: string;
  status: number;
  body: string;
}

/**
 * Makes the answer to a request from a result known only in the transaction, and keeps it there, so that a
 * repeat never has the effect again. Undefined: the request had no key.
 */
export type CompletesWith<Result> = (result: Result) => IdempotentAnswer | undefined;

/** `mismatch`: the key was used for another request. */
export type IdempotentState =
  | { kind: 'started' }
  | { kind: 'completed'; status: number; body: string }
  | { kind: 'in_progress' }
  | { kind: 'mismatch' };
