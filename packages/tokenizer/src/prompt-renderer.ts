import type { ChatTemplate, RenderOptions } from './chat-template.ts';
import { ControlShield } from './control-shield.ts';
import {
  mergeDeveloperMessages,
  prepareMessage,
  type PreparedMessage,
  type TemplateMessage,
} from './template-message.ts';

// A template that names this role, in quotes, has its own idea of it.
const NAMES_DEVELOPER = /(['"])developer\1/;

/**
 * Renders one conversation, or beginnings of it, under one shield: the texts of its renderings can be compared and cut.
 *
 * Texts given out by `render` are shielded; `encode` and `restore` take such texts or pieces of them.
 */
export class PromptRenderer {
  /** As the content of a message: marks where the template puts it. Not white space, no letter, nowhere else in the conversation. */
  readonly sentinel: string;
  readonly #template: ChatTemplate;
  readonly #shield: ControlShield;
  readonly #variables: Readonly<Record<string, unknown>>;
  readonly #prepared = new WeakMap<TemplateMessage, PreparedMessage>();
  readonly #mergesDeveloper: boolean;

  constructor(template: ChatTemplate, messages: readonly TemplateMessage[], options: RenderOptions) {
    const tools = options.tools ?? null;
    const variables = options.templateVariables ?? {};
    this.#template = template;
    // Prepared first: parsing a JSON escape can bring a control token's text to light.
    const prepared = messages.map((message) => prepareMessage(message, template.contentFormat));
    this.#shield = new ControlShield(template.tokenizer.control, [prepared, tools, variables]);
    this.sentinel = this.#shield.sentinel;
    this.#mergesDeveloper = !NAMES_DEVELOPER.test(template.source);
    const { bosTokenId, eosTokenId } = template.tokenizer;
    const own = {
      tools: this.#shield.protect(tools),
      bos_token: bosTokenId === null ? '' : template.tokenizer.tokenText(bosTokenId),
      eos_token: template.tokenizer.tokenText(eosTokenId),
    };
    // null, not absent: templates ask `documents is not none`
    this.#variables = { documents: null, ...(this.#shield.protect(variables) as Record<string, unknown>), ...own };
  }

  /** @throws {TokenizerError} `tokenizer.template_failed`, `tokenizer.unsupported_content` */
  render(messages: readonly TemplateMessage[], addGenerationPrompt: boolean): string {
    const format = this.#template.contentFormat;
    const prepared = messages.map((message) => this.#protected(message));
    return this.#template.run({
      ...this.#variables,
      messages: this.#mergesDeveloper ? mergeDeveloperMessages(prepared, format) : prepared,
      add_generation_prompt: addGenerationPrompt,
    });
  }

  /** @throws {TokenizerError} `tokenizer.text_too_long` */
  encode(shielded: string): Int32Array {
    return this.#template.tokenizer.encodeFragments(shielded, (fragment) => this.#shield.restore(fragment));
  }

  restore(shielded: string): string {
    return this.#shield.restore(shielded);
  }

  #protected(message: TemplateMessage): PreparedMessage {
    let prepared = this.#prepared.get(message);
    if (prepared === undefined) {
      prepared = this.#shield.protect(prepareMessage(message, this.#template.contentFormat)) as PreparedMessage;
      this.#prepared.set(message, prepared);
    }
    return prepared;
  }
}
