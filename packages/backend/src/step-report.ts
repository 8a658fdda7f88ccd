/** The result of one step. */
export interface StepReport {
  /** Tokens computed; 0 when nothing could run. */
  numTokens: number;
  /** Those that gave a new token. */
  numSampled: number;
  durationMs: number;
}
