import type { TokenKind } from '@trainyard/native';

/**
 * The part of a model file that a tokenizer uses. `LlamaModel` satisfies it structurally; `ByteVocabulary` does so without weights.
 *
 * Ids are `0 … vocabSize - 1`. Nothing here changes during the life of the object.
 */
export interface Vocabulary {
  readonly vocabSize: number;
  readonly bosTokenId: number | null;
  readonly eosTokenId: number | null;
  readonly eotTokenId: number | null;
  /** Name of the splitter in front of byte pair encoding (`tokenizer.ggml.pre`), if the vocabulary has one. */
  readonly preTokenizer: string | undefined;
  /** Longest context the model was trained on, tokens; 0 or absent = unknown. Bounds the text that is worth tokenising. */
  readonly contextLength?: number;
  /** Text → ids. With `parseSpecial: false` no control token is produced whatever the text says. */
  tokenize(text: string, options: { addSpecial: boolean; parseSpecial: boolean }): Int32Array;
  /** True bytes of a token; a special token gives its text. */
  tokenBytes(id: number): Uint8Array;
  tokenKind(id: number): TokenKind;
  isEndOfGeneration(id: number): boolean;
}
