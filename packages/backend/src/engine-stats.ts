/** A snapshot. `…Tokens` of memory are KV cells; totals count from the start of the engine. */
export interface EngineStats {
  numRequests: number;
  /** Requests whose prompts are not made yet. */
  numUnprepared: number;
  /** Choices that hold cells. */
  numRunning: number;
  /** Includes preempted choices. */
  numWaiting: number;
  /** Total requests examined for admission. */
  numLooks: number;
  usedTokens: number;
  /** Cells held only by cache entries. */
  cachedTokens: number;
  capacityTokens: number;
  /** Prompt tokens found in memory at admission, of `prefixQueryTokens`. */
  prefixHitTokens: number;
  prefixQueryTokens: number;
  numPreemptions: number;
  numAdapters: number;
  adapterBytes: number;
  numSteps: number;
  /** Prompt tokens of started requests, counted once per request. */
  promptTokens: number;
  generatedTokens: number;
  /** Tokens run through the model: prompts, replies and recomputation after preemption. */
  computedTokens: number;
}
