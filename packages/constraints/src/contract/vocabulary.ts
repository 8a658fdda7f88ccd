/** The facts about a model's tokens that constraints need. Nothing here changes during the life of the object. */
export interface ConstraintVocabulary {
  readonly vocabSize: number;
  /** True bytes of a token; a control token gives its text. */
  tokenBytes(id: number): Uint8Array;
  /** Control tokens never stand for the text of their name; they appear only where a grammar asks for the token. */
  isControl(id: number): boolean;
  readonly eosTokenId: number;
  /** Every token that ends a completion, `eosTokenId` included or not. */
  readonly endTokenIds: Iterable<number>;
}
