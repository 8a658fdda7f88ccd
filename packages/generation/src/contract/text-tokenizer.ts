import type { Tokenizer } from '@trainyard/tokenizer';

/** Part of a tokenizer that the engine uses. */
export type TextTokenizer = Pick<
  Tokenizer,
  | 'vocabSize'
  | 'eosTokenId'
  | 'endTokenIds'
  | 'tokenBytes'
  | 'tokenText'
  | 'createDecoder'
  | 'encode'
  | 'encodeAfter'
  | 'encodeWithSpecial'
>;
