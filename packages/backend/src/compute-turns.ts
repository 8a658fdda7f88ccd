/** Turns on cores that others want too. */
export interface ComputeTurns {
  /** Resolves when the cores are ours, until `release`. */
  acquire(): Promise<void>;
  release(): void;
  /** There is no more work for now. */
  giveBack(): void;
}
