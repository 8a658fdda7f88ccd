import type { Tokenizer } from '@trainyard/tokenizer';

/** What the engine asks of a tokenizer. */
export type EngineTokenizer = Pick<
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
