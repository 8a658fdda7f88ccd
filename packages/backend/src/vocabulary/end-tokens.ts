export interface EndTokens {
  /** The vocabulary's own. */
  readonly eosTokenId: number;
  /** All end tokens, possibly including it. */
  readonly endTokenIds: ReadonlySet<number>;
}
