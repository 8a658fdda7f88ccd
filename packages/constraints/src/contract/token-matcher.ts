/**
 * One completion under a constraint. Not shared between completions: `clone` it.
 *
 * Any method may throw a `ConstraintError` with `constraint.exhausted`: the constraint turned out to need more work or
 * memory than one completion gets. The matcher is of no use then, and still wants its `close`.
 */
export interface TokenMatcher {
  /**
   * Writes which tokens may come next; at least one may.
   * @param mask shape `[ceil(V/32)]`; bit i of word w says whether token 32w+i is allowed
   */
  fillMask(mask: Uint32Array): void;
  /** Goes on by one token. False when it was not allowed; nothing changed then. */
  accept(tokenId: number): boolean;
  /** Complete: only end tokens may follow. */
  readonly isStopped: boolean;
  /** The completion may end here, though it may go on too unless `isStopped`. */
  readonly canEnd: boolean;
  /** An independent matcher in the same state. */
  clone(): TokenMatcher;
  close(): void;
}
