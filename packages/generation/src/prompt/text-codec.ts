import { TokenizerError } from '@trainyard/tokenizer';
import type { Tokenizer } from '@trainyard/tokenizer';
import { type EngineTemplate, renderChat, type TemplateSandbox } from './chat.ts';
import { checkVocabulary, EngineError } from '@trainyard/backend';
import type { Prompt } from '../contract/generate-request.ts';
import { type PromptBorders, promptIds } from './prompt.ts';

/** Input that can be tokenised: plain text or a conversation. */
export type TokenizeInput = ({ kind: 'text'; text: string } | Extract<Prompt, { kind: 'chat' }>) & {
  /** Put around the text what the model's tokenizer puts around every text by itself, often nothing. */
  addSpecialTokens: boolean;
};

type CodecTokenizer = Pick<Tokenizer, 'encodeWithSpecial' | 'decode' | 'tokenText' | 'vocabSize'>;

/** Text ↔ ids outside any generation. Computes on the calling thread; no length limit but that of the tokenizer. */
export class TextCodec {
  readonly #tokenizer: CodecTokenizer;
  readonly #parts: { template: EngineTemplate | null; templateSandbox: TemplateSandbox | null };
  readonly #borders: PromptBorders;

  constructor(parts: {
    tokenizer: CodecTokenizer;
    template: EngineTemplate | null;
    templateSandbox?: TemplateSandbox | null;
    borders: PromptBorders;
  }) {
    this.#tokenizer = parts.tokenizer;
    this.#parts = { template: parts.template, templateSandbox: parts.templateSandbox ?? null };
    this.#borders = parts.borders;
  }

  /**
   * The texts of control tokens in a plain text become those tokens, since its sender speaks for the whole prompt; in a
   * conversation only the template makes them.
   *
   * @throws {EngineError} engine.template_failed; context_length_exceeded for a text far beyond any context
   */
  async tokenize(input: TokenizeInput, signal: AbortSignal): Promise<number[]> {
    const ids =
      input.kind === 'text' ? this.#encode(input.text) : (await renderChat(input, this.#parts, signal)).tokenIds;
    return promptIds(ids, input.addSpecialTokens ? this.#borders : null);
  }

  /** The text of each id by itself; pieces of a character read as U+FFFD. @throws {EngineError} engine.invalid_request */
  tokenTexts(ids: readonly number[]): string[] {
    this.#check(ids);
    return ids.map((id) => this.#tokenizer.tokenText(id));
  }

  /** The text of all ids, control tokens included. @throws {EngineError} engine.invalid_request for an id outside the vocabulary */
  detokenize(ids: readonly number[]): string {
    this.#check(ids);
    return this.#tokenizer.decode(ids);
  }

  #encode(text: string): Int32Array {
    try {
      return this.#tokenizer.encodeWithSpecial(text);
    } catch (cause) {
      if (!(cause instanceof TokenizerError) || cause.code !== 'tokenizer.text_too_long') throw cause;
      throw new EngineError('context_length_exceeded', cause.message, { param: 'prompt', cause });
    }
  }

  #check(ids: readonly number[]): void {
    checkVocabulary(ids, this.#tokenizer.vocabSize, 'tokens');
  }
}
