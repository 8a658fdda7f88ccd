import { TokenizerError } from '@trainyard/tokenizer';
import type { Tokenizer } from '@trainyard/tokenizer';
import { canRender, type EngineTemplate, renderChat, type TemplateSandbox } from './chat.ts';
import { checkVocabulary, EngineError } from '@trainyard/backend';
import type { LongTexts } from './long-texts.ts';
import { isLongPrompt } from './prompt-weight.ts';
import type { Prompt } from '../contract/generate-request.ts';
import { type PromptBorders, promptIds } from './prompt.ts';

/** Input to tokenise: plain text or a conversation. */
export type TokenizeInput = ({ kind: 'text'; text: string } | Extract<Prompt, { kind: 'chat' }>) & {
  /** Adds the tokens that the model's tokenizer adds around every text, often none. */
  addSpecialTokens: boolean;
};

type CodecTokenizer = Pick<Tokenizer, 'encodeWithSpecial' | 'decode' | 'tokenText' | 'vocabSize'>;

/** The caller is unknown here, so all callers share one turn next to sampling tenants. */
const ALL_CALLERS = 'tokenize';

/**
 * Converts text and ids outside of generation. Runs on the calling thread, except for long texts and chats;
 * no length limit but the tokenizer's.
 */
export class TextCodec {
  readonly #tokenizer: CodecTokenizer;
  readonly #parts: { template: EngineTemplate | null; templateSandbox: TemplateSandbox | null };
  readonly #borders: PromptBorders;
  readonly #longTexts: Pick<LongTexts, 'encode' | 'render'> | null;

  /** @param parts.longTexts makes long texts and chats; default: the calling thread makes all */
  constructor(parts: {
    tokenizer: CodecTokenizer;
    template: EngineTemplate | null;
    templateSandbox?: TemplateSandbox | null;
    longTexts?: Pick<LongTexts, 'encode' | 'render'> | null;
    borders: PromptBorders;
  }) {
    this.#tokenizer = parts.tokenizer;
    this.#parts = { template: parts.template, templateSandbox: parts.templateSandbox ?? null };
    this.#borders = parts.borders;
    this.#longTexts = parts.longTexts ?? null;
  }

  /**
   * Tokenises a text or conversation. The texts of control tokens in plain text become those tokens, because
   * its sender controls the whole prompt; in a conversation only the template makes them.
   *
   * @throws {EngineError} engine.template_failed; context_length_exceeded for a text far beyond any context
   */
  async tokenize(input: TokenizeInput, signal: AbortSignal): Promise<number[]> {
    const longTexts = isLongPrompt(input) ? this.#longTexts : null;
    const use = { tenant: ALL_CALLERS, signal };
    if (input.kind === 'text') {
      const ids = await this.#encode(
        () => longTexts?.encode(input.text, use) ?? this.#tokenizer.encodeWithSpecial(input.text),
      );
      return promptIds(ids, input.addSpecialTokens ? this.#borders : null);
    }
    const isLong = longTexts !== null && canRender(input, this.#parts);
    const { tokenIds } = await (isLong ? longTexts.render(input, use) : renderChat(input, this.#parts, signal));
    return promptIds(tokenIds, input.addSpecialTokens ? this.#borders : null);
  }

  /**
   * Text of each id by itself; parts of a character become U+FFFD. @throws {EngineError}
   * engine.invalid_request
   */
  tokenTexts(ids: readonly number[]): string[] {
    this.#check(ids);
    return ids.map((id) => this.#tokenizer.tokenText(id));
  }

  /**
   * Text of all ids, including control tokens. @throws {EngineError} engine.invalid_request for an id outside
   * the vocabulary
   */
  detokenize(ids: readonly number[]): string {
    this.#check(ids);
    return this.#tokenizer.decode(ids);
  }

  async #encode(encode: () => Int32Array | Promise<Int32Array>): Promise<Int32Array> {
    try {
      return await encode();
    } catch (cause) {
      if (!(cause instanceof TokenizerError) || cause.code !== 'tokenizer.text_too_long') throw cause;
      throw new EngineError('context_length_exceeded', cause.message, { param: 'prompt', cause });
    }
  }

  #check(ids: readonly number[]): void {
    checkVocabulary(ids, this.#tokenizer.vocabSize, 'tokens');
  }
}
