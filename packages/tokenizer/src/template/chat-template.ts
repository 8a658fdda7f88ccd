import { PromptInput, type RenderedPrompt, type RenderOptions, toolFormatOf } from './prompt-input.ts';
import { PromptRenderer } from './prompt-renderer.ts';
import type { ToolFormat } from '../reply/tool-format.ts';
import type { ContentFormat, TemplateMessage } from '../contract/template-message.ts';
import { TemplateProgram, type TemplateProgramOptions } from './template-program.ts';
import { TokenizerError } from '../contract/tokenizer-error.ts';
import type { Tokenizer } from '../encoding/tokenizer.ts';
import type { ToolSupport } from '../tools/tool-support.ts';
import type { TurnSupport } from '../turns/turn-support.ts';

export interface ChatTemplateOptions extends TemplateProgramOptions {
  /** The texts of control tokens in messages, tools and variables become those tokens: only where their senders are trusted. Default: false. */
  allowsControlTokens?: boolean;
}

/** A Jinja chat template on a vocabulary: messages → prompt. Parsed once, then stateless. */
export class ChatTemplate {
  readonly tokenizer: Tokenizer;
  readonly allowsControlTokens: boolean;
  readonly #program: TemplateProgram;

  /** @throws {TokenizerError} `tokenizer.template_failed` when the source is no valid template, or too long */
  constructor(tokenizer: Tokenizer, source: string, options: ChatTemplateOptions = {}) {
    this.tokenizer = tokenizer;
    this.allowsControlTokens = options.allowsControlTokens ?? false;
    this.#program = new TemplateProgram(source, options);
  }

  /**
   * The template a model file carries.
   * @throws {TokenizerError} `tokenizer.no_template` when it carries none; `tokenizer.template_failed`
   */
  static fromModel(
    tokenizer: Tokenizer,
    model: { readonly chatTemplate: string | undefined },
    options?: ChatTemplateOptions,
  ): ChatTemplate {
    if (model.chatTemplate === undefined) {
      throw new TokenizerError(
        'tokenizer.no_template',
        'the model file carries no chat template (metadata key tokenizer.chat_template)',
      );
    }
    return new ChatTemplate(tokenizer, model.chatTemplate, options);
  }

  get source(): string {
    return this.#program.source;
  }

  /** The form of a message's content that the template expects. */
  get contentFormat(): ContentFormat {
    return this.#program.contentFormat;
  }

  get toolSupport(): ToolSupport {
    return this.#program.toolSupport;
  }

  get turnSupport(): TurnSupport {
    return this.#program.turnSupport;
  }

  /** How the calls in replies to its prompts are written. @see toolFormatOf */
  get toolFormat(): ToolFormat | null {
    return toolFormatOf(this);
  }

  /**
   * Messages → prompt. Unless `allowsControlTokens`, they come from the template alone, never from what messages, tools or variables say.
   *
   * @throws {TokenizerError} `tokenizer.template_failed` with the template's own reason; `tokenizer.final_message_lost`;
   *   `tokenizer.unsupported_content`; `tokenizer.text_too_long`
   */
  render(messages: readonly TemplateMessage[], options: RenderOptions = {}): RenderedPrompt {
    const input = new PromptInput(this, messages, options);
    return input.finish(this.run(input.promptVariables()));
  }

  /**
   * For several renderings that are to be compared: all of them protect outside text by the same characters.
   * @param messages all that will be rendered
   */
  renderer(messages: readonly TemplateMessage[], options: RenderOptions = {}): PromptRenderer {
    return new PromptRenderer(this, messages, options);
  }

  /**
   * Runs the template on variables as they are, with nothing protected.
   * @throws {TokenizerError} `tokenizer.template_failed`
   */
  run(variables: Readonly<Record<string, unknown>>): string {
    return this.#program.run(variables);
  }
}
