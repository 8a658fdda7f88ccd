/**
 * State of one completion under a constraint; `clone` it for another. Any method may throw a `ConstraintError`
 * with `constraint.exhausted` if the constraint needs more work or memory than one completion gets. The matcher
 * is then unusable but must still be closed.
 */
export interface TokenMatcher {
  /**
   * Writes the tokens allowed next; at least one is.
   *
   * @param mask shape `[ceil(V/32)]`; bit i of word w is 1 if token 32w+i is allowed
   */
  fillMask(mask: Uint32Array): void;
  /** Advances by one token. False if it is not allowed; the state is then unchanged. */
  accept(tokenId: number): boolean;
  /** Only end tokens may follow. */
  readonly isStopped: boolean;
  /** The completion may end here, or continue unless `isStopped`. */
  readonly canEnd: boolean;
  clone(): TokenMatcher;
  close(): void;
}
