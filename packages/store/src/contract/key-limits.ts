/** How much a key may use, over all processes; null: as much as there is. */
export interface KeyLimits {
  readonly requestsPerMinute: number | null;
  /** prompt and completion, as usage counts them */
  readonly tokensPerMinute: number | null;
  readonly maxRequestsInFlight: number | null;
}

export const NO_LIMITS: KeyLimits = { requestsPerMinute: null, tokensPerMinute: null, maxRequestsInFlight: null };

/** Null where none of them is a limit. */
export function limitsIfAny(limits: KeyLimits): KeyLimits | null {
  return Object.values(limits).some((limit) => limit !== null) ? limits : null;
}

/** `sample` counts for every limit, `submit` for those of requests alone. */
export type LimitedWork = 'sample' | 'submit';

/** How much a key has used of buckets that fill evenly: 0 is a full one, its limit an empty one, more a debt. */
export interface KeyBudget {
  readonly usedRequests: number;
  readonly usedTokens: number;
  /** milliseconds since the epoch, by the clock of the store: what was used is as of then */
  readonly at: number;
  /** requests in flight in other processes */
  readonly numElsewhere: number;
}

/** All that a process says of one key in one write. */
export interface KeySpending {
  readonly keyId: string;
  readonly limits: KeyLimits;
  /** requests that want to begin, in their order */
  readonly wanted: readonly LimitedWork[];
  /** requests that have begun without a question */
  readonly numBegun: number;
  /** tokens since the last spending */
  readonly numTokens: number;
  /** requests of this process that are in flight, without those that want to begin; told where that is limited */
  readonly numInFlight: number;
}

/** `freeInMs`: when the same request may begin if nobody else does; null where that is not known. */
export type KeyVerdict =
  | { readonly kind: 'granted'; readonly budget: KeyBudget }
  | {
      readonly kind: 'refused';
      readonly limit: keyof KeyLimits;
      readonly freeInMs: number | null;
      readonly budget: KeyBudget;
    };

export interface KeyAnswer {
  /** what is left behind all of the spending */
  readonly budget: KeyBudget;
  /** one for each that wanted to begin */
  readonly verdicts: readonly KeyVerdict[];
}
