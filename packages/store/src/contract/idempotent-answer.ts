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
