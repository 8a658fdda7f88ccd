export interface StepReport {
  /** Computed tokens; 0 if nothing could run. */
  numTokens: number;
  /** Number of tokens that gave a new token. */
  numSampled: number;
  durationMs: number;
}
