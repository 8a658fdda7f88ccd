/** Tokens that end a reply. */
export interface EndTokens {
  /** The vocabulary's own. */
  readonly eosTokenId: number;
  /** All that do; it may be among them. */
  readonly endTokenIds: ReadonlySet<number>;
}
