/** A snapshot; `…Tokens` of memory are KV cells, the totals count from the start of the engine. */
export interface EngineStats {
  numRequests: number;
  /** Those whose prompts are not made yet. */
  numUnprepared: number;
  /** Choices that hold cells. */
  numRunning: number;
  /** Choices queued, preempted ones included. */
  numWaiting: number;
  /** Requests that admission has looked at, in all. */
  numLooks: number;
  usedTokens: number;
  /** Held by cache entries alone. */
  cachedTokens: number;
  capacityTokens: number;
  /** Prompt tokens found in memory at admission, of `prefixQueryTokens` asked for. */
  prefixHitTokens: number;
  prefixQueryTokens: number;
  numPreemptions: number;
  numAdapters: number;
  adapterBytes: number;
  numSteps: number;
  /** Prompt tokens of the requests started, once a request. */
  promptTokens: number;
  generatedTokens: number;
  /** Tokens run through the model: prompts, replies and what was computed again after preemption. */
  computedTokens: number;
}
