import { EncodedFragments } from '../encoding/encoded-fragments.ts';
import { PromptInput, type RenderOptions, type TemplateTraits } from './prompt-input.ts';
import type { TemplateMessage } from '../contract/template-message.ts';

interface RunnableTemplate extends TemplateTraits {
  run(variables: Readonly<Record<string, unknown>>): string;
}

/** Renderer of one conversation, or beginnings of it, under one shield. */
export class PromptRenderer extends PromptInput {
  readonly #template: RunnableTemplate;
  readonly #lastPrompt = new EncodedFragments();

  /** @param messages all that will be rendered */
  constructor(template: RunnableTemplate, messages: readonly TemplateMessage[], options: RenderOptions) {
    super(template, messages, options);
    this.#template = template;
  }

  /** @returns shielded text @throws {TokenizerError} `tokenizer.template_failed`, `tokenizer.unsupported_content` */
  render(messages: readonly TemplateMessage[], addGenerationPrompt: boolean): string {
    return this.#template.run(this.variables(messages, addGenerationPrompt));
  }

  /**
   * Encodes only the part that differs from the previous prompt.
   *
   * @throws {TokenizerError} `tokenizer.text_too_long`
   */
  encodePrompt(shielded: string): Int32Array {
    return this.encode(shielded, this.#lastPrompt);
  }
}
