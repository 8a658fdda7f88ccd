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
  /**
   * True if control tokens' texts in messages, tools and variables become those tokens; only for trusted senders.
   * Default: false.
   */
  allowsControlTokens?: boolean;
}

/** A Jinja chat template on a vocabulary: messages → prompt. Parsed once, then stateless. */
export class ChatTemplate {
  readonly tokenizer: Tokenizer;
  readonly allowsControlTokens: boolean;
  readonly #program: TemplateProgram;

  /** @throws {TokenizerError} `tokenizer.template_failed` if the source is not a valid template, or too long */
  constructor(tokenizer: Tokenizer, source: string, options: ChatTemplateOptions = {}) {
    this.tokenizer = tokenizer;
    this.allowsControlTokens = options.allowsControlTokens ?? false;
    this.#program = new TemplateProgram(source, options);
  }

  /** @throws {TokenizerError} `tokenizer.no_template` if the file has none; `tokenizer.template_failed` */
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

  get contentFormat(): ContentFormat {
    return this.#program.contentFormat;
  }

  get toolSupport(): ToolSupport {
    return this.#program.toolSupport;
  }

  get turnSupport(): TurnSupport {
    return this.#program.turnSupport;
  }

  /** @see toolFormatOf */
  get toolFormat(): ToolFormat | null {
    return toolFormatOf(this);
  }

  /**
   * Renders messages to a prompt. Unless `allowsControlTokens`, control tokens come only from the template.
   *
   * @throws {TokenizerError} `tokenizer.template_failed` with the template's own reason;
   * `tokenizer.final_message_lost`; `tokenizer.unsupported_content`; `tokenizer.text_too_long`
   */
  render(messages: readonly TemplateMessage[], options: RenderOptions = {}): RenderedPrompt {
    const input = new PromptInput(this, messages, options);
    return input.finish(this.run(input.promptVariables()));
  }

  /** Renderer for several comparable renderings. @param messages all that will be rendered */
  renderer(messages: readonly TemplateMessage[], options: RenderOptions = {}): PromptRenderer {
    return new PromptRenderer(this, messages, options);
  }

  /** Runs the template on unprotected variables. @throws {TokenizerError} `tokenizer.template_failed` */
  run(variables: Readonly<Record<string, unknown>>): string {
    return this.#program.run(variables);
  }
}
