import type { TokenKind } from '@trainyard/native';

/**
 * The part of a model file that a tokenizer uses: `LlamaModel`, or `ByteVocabulary` without weights. Ids are `0
 * … vocabSize - 1`. Immutable.
 */
export interface Vocabulary {
  readonly vocabSize: number;
  readonly bosTokenId: number | null;
  readonly eosTokenId: number | null;
  readonly eotTokenId: number | null;
  /** Name of the splitter before byte pair encoding (`tokenizer.ggml.pre`), if any. */
  readonly preTokenizer: string | undefined;
  /** Longest context of the training, tokens; 0 or absent = unknown. Limits the text to tokenise. */
  readonly contextLength?: number;
  /** With `parseSpecial: false` no text produces a control token. */
  tokenize(text: string, options: { addSpecial: boolean; parseSpecial: boolean }): Int32Array;
  /** Exact bytes of a token; a special token's are its text. */
  tokenBytes(id: number): Uint8Array;
  tokenKind(id: number): TokenKind;
  isEndOfGeneration(id: number): boolean;
}
