/** Limits of a key over all processes; null is unlimited. */
export interface KeyLimits {
  readonly requestsPerMinute: number | null;
  /** prompt and completion tokens, as usage counts them */
  readonly tokensPerMinute: number | null;
  readonly maxRequestsInFlight: number | null;
}

export const NO_LIMITS: KeyLimits = { requestsPerMinute: null, tokensPerMinute: null, maxRequestsInFlight: null };

/** Returns null if none of them is a limit. */
export function limitsIfAny(limits: KeyLimits): KeyLimits | null {
  return Object.values(limits).some((limit) => limit !== null) ? limits : null;
}

/** Kind of limited work: `sample` counts for every limit, `submit` only for those of requests. */
export type LimitedWork = 'sample' | 'submit';

/** Use of a key's buckets, which refill evenly: 0 is a full bucket, its limit an empty one, more a debt. */
export interface KeyBudget {
  readonly usedRequests: number;
  readonly usedTokens: number;
  /** milliseconds since the epoch, on the clock of the store: time of the used amounts */
  readonly at: number;
  /** requests in flight in other processes */
  readonly numByOthers: number;
}

/** All use of one key that a process reports in one write. */
export interface KeySpending {
  readonly keyId: string;
  readonly limits: KeyLimits;
  /** requests that want to start, in order */
  readonly wanted: readonly LimitedWork[];
  /** requests that started without asking */
  readonly numBegun: number;
  /** tokens since the last spending */
  readonly numTokens: number;
  /**
   * requests of this process in flight, without those that want to start; reported if that number is limited
   */
  readonly numInFlight: number;
}

/** `freeInMs`: time until the same request may start if no other does; null if unknown. */
export type KeyVerdict =
  | { readonly kind: 'granted'; readonly budget: KeyBudget }
  | {
      readonly kind: 'refused';
      readonly limit: keyof KeyLimits;
      readonly freeInMs: number | null;
      readonly budget: KeyBudget;
    };

export interface KeyAnswer {
  /** budget after all of the spending */
  readonly budget: KeyBudget;
  /** one verdict per request that wanted to start */
  readonly verdicts: readonly KeyVerdict[];
}
