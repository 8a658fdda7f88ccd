/** Turns on cores shared with others. */
export interface ComputeTurns {
  /** Resolves when the cores are ours, until `release`. */
  acquire(): Promise<void>;
  release(): void;
  /** Ends the turn: there is no more work for now. */
  giveBack(): void;
}
