import type { Tokenizer } from '@trainyard/tokenizer';

/** What the engine asks of a tokenizer. */
export type TextTokenizer = Pick<
  Tokenizer,
  | 'vocabSize'
  | 'eosTokenId'
  | 'endTokenIds'
  | 'tokenBytes'
  | 'tokenText'
  | 'createDecoder'
  | 'encode'
  | 'encodeWithSpecial'
>;
