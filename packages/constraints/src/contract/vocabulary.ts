/** Facts about a model's tokens. Immutable. */
export interface ConstraintVocabulary {
  readonly vocabSize: number;
  /** Exact bytes of a token; a control token's are its text. */
  tokenBytes(id: number): Uint8Array;
  /** Control tokens never match the text of their name, only grammars that ask for the token. */
  isControl(id: number): boolean;
  readonly eosTokenId: number;
  /** May include `eosTokenId`. */
  readonly endTokenIds: Iterable<number>;
}
