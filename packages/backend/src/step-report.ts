/** What one step did. */
export interface StepReport {
  /** Tokens computed; 0 when nothing could run. */
  numTokens: number;
  /** Of them, those that gave a new token. */
  numSampled: number;
  durationMs: number;
}
