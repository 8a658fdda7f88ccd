import { ControlShield } from '../encoding/control-shield.ts';
import { checkInputSize } from '../contract/input-size.ts';
import { checkNestingDepth } from '../contract/nesting-depth.ts';
import { detectToolFormat, type ToolFormat } from '../reply/tool-format.ts';
import type { EncodedFragments } from '../encoding/encoded-fragments.ts';
import { SpecialTokens } from '../encoding/special-tokens.ts';
import {
  argumentsLength,
  prepareMessage,
  type ContentFormat,
  type PreparedMessage,
  type TemplateMessage,
} from '../contract/template-message.ts';
import { TokenizerError } from '../contract/tokenizer-error.ts';
import type { Tokenizer } from '../encoding/tokenizer.ts';
import { withHermesTools } from '../tools/hermes-tools.ts';
import { inToolOrder } from '../tools/tool-order.ts';
import type { ToolSupport } from '../tools/tool-support.ts';
import { arrangeTurns, withResultsAfterCalls } from '../turns/arrange-turns.ts';
import type { TurnSupport } from '../turns/turn-support.ts';

export interface RenderOptions {
  /**
   * `null`, absent or empty = none. If the template ignores tools, a system message describes them in the Hermes
   * format.
   */
  tools?: readonly unknown[] | null;
  /** True to end with the opening of an assistant turn. Default: true, unless the final message is continued. */
  addGenerationPrompt?: boolean;
  /** True to end within the final message, right after its content. Excludes `addGenerationPrompt`. Default: false. */
  continueFinalMessage?: boolean;
  /** Further variables, such as `enable_thinking`. Names that already have a value are ignored. */
  templateVariables?: Readonly<Record<string, unknown>>;
}

export interface RenderedPrompt {
  tokenIds: Int32Array;
  text: string;
}

/** Traits that a template's variables depend on. */
export interface TemplateTraits {
  readonly tokenizer: Tokenizer;
  readonly source: string;
  readonly contentFormat: ContentFormat;
  readonly toolSupport: ToolSupport;
  /** Null only if no conversation has rare turns. */
  readonly turnSupport: TurnSupport | null;
  /** As in `ChatTemplateOptions`. */
  readonly allowsControlTokens: boolean;
}

const NO_TOKENS = new SpecialTokens([]);

/** Characters of call arguments per conversation whose exact writing is kept: these take 0.2 s. */
const MAX_WRITTEN_ARGUMENTS = 262_144;

/**
 * One conversation in a template: messages → variables, rendered text → prompt. All texts of one object have the
 * same shield until `finish`, `encode` or `restore`, so they can be compared and cut.
 */
export class PromptInput {
  /** Message content that marks a place in the rendered text: not white space, not a letter, and unique. */
  readonly sentinel: string;
  readonly #traits: TemplateTraits;
  readonly #messages: readonly TemplateMessage[];
  readonly #options: RenderOptions;
  readonly #writesHermes: boolean;
  readonly #shield: ControlShield;
  readonly #variables: Readonly<Record<string, unknown>>;
  readonly #prepared = new WeakMap<TemplateMessage, PreparedMessage>();

  /**
   * @param messages all that will be rendered
   * @throws {TokenizerError} `tokenizer.unsupported_content`; `tokenizer.template_failed` for options that exclude
   * each other
   */
  constructor(traits: TemplateTraits, messages: readonly TemplateMessage[], options: RenderOptions) {
    if (options.continueFinalMessage === true && options.addGenerationPrompt === true) {
      const message =
        'a prompt cannot both continue the final message and open a new one: set add_generation_prompt to false';
      throw new TokenizerError('tokenizer.template_failed', message);
    }
    // Templates ask `tools is not none`, so an empty list must become none.
    const tools = options.tools?.length ? options.tools.map(inToolOrder) : null;
    const variables = options.templateVariables ?? {};
    checkInputSize(messages, tools, traits.tokenizer.maxTextBytes);
    this.#traits = traits;
    this.#messages = messages;
    this.#options = { ...options, tools };
    this.#writesHermes = needsHermes(traits, messages, tools);
    // Prepared first: parsing a JSON escape can reveal a control token's text.
    const adapted = this.#adapted(messages);
    const numWritten = numWrittenMessages(adapted);
    const plain = adapted.map((message, index) => this.#prepare(message, index < numWritten));
    const values = [plain, tools, variables];
    checkNestingDepth(values);
    this.#shield = new ControlShield(traits.allowsControlTokens ? NO_TOKENS : traits.tokenizer.control, values);
    this.sentinel = this.#shield.sentinel;
    adapted.forEach((message, index) => this.#protect(message, plain[index]!));
    const { bosTokenId, eosTokenId } = traits.tokenizer;
    const own = {
      tools: this.#shield.protect(tools),
      bos_token: bosTokenId === null ? '' : traits.tokenizer.tokenText(bosTokenId),
      eos_token: traits.tokenizer.tokenText(eosTokenId),
    };
    // null, not absent: templates ask `documents is not none`
    this.#variables = { documents: null, ...(this.#shield.protect(variables) as Record<string, unknown>), ...own };
  }

  promptVariables(): Record<string, unknown> {
    const { continueFinalMessage = false, addGenerationPrompt = !continueFinalMessage } = this.#options;
    const prepared = this.#preparedOf(this.#messages);
    return this.#variablesOf(continueFinalMessage ? this.#marked(prepared) : prepared, addGenerationPrompt);
  }

  variables(messages: readonly TemplateMessage[], addGenerationPrompt: boolean): Record<string, unknown> {
    return this.#variablesOf(this.#preparedOf(messages), addGenerationPrompt);
  }

  /**
   * @param rendered the template's text for `promptVariables`
   * @throws {TokenizerError} `tokenizer.text_too_long`; `tokenizer.final_message_lost`
   */
  finish(rendered: string): RenderedPrompt {
    const shielded = this.#options.continueFinalMessage === true ? this.#cut(rendered) : rendered;
    return { tokenIds: this.encode(shielded), text: this.restore(shielded) };
  }

  /** @param last fragments of a text of this object @throws {TokenizerError} `tokenizer.text_too_long` */
  encode(shielded: string, last?: EncodedFragments): Int32Array {
    return this.#traits.tokenizer.encodeFragments(shielded, (fragment) => this.#shield.restore(fragment), last);
  }

  restore(shielded: string): string {
    return this.#shield.restore(shielded);
  }

  #variablesOf(prepared: readonly PreparedMessage[], addGenerationPrompt: boolean): Record<string, unknown> {
    return { ...this.#variables, messages: prepared, add_generation_prompt: addGenerationPrompt };
  }

  #preparedOf(messages: readonly TemplateMessage[]): PreparedMessage[] {
    const adapted = this.#adapted(messages);
    const numWritten = numWrittenMessages(adapted);
    return adapted.map((message, index) => this.#protected(message, index < numWritten));
  }

  #adapted(messages: readonly TemplateMessage[]): readonly TemplateMessage[] {
    const ordered = withResultsAfterCalls(messages);
    const known = this.#writesHermes ? withHermesTools(ordered, this.#options.tools ?? []) : ordered;
    return arrangeTurns(known, this.#traits);
  }

  #protected(message: TemplateMessage, keepsWriting: boolean): PreparedMessage {
    return this.#prepared.get(message) ?? this.#protect(message, this.#prepare(message, keepsWriting));
  }

  #prepare(message: TemplateMessage, keepsWriting: boolean): PreparedMessage {
    return prepareMessage(message, this.#traits.contentFormat, { keepsWriting });
  }

  #protect(message: TemplateMessage, plain: PreparedMessage): PreparedMessage {
    const prepared = this.#shield.protect(plain) as PreparedMessage;
    this.#prepared.set(message, prepared);
    return prepared;
  }

  /** Appends the sentinel and a space to the final message: a template that trims drops the space. */
  #marked(prepared: readonly PreparedMessage[]): PreparedMessage[] {
    const last = prepared.at(-1);
    if (last === undefined)
      throw new TokenizerError('tokenizer.template_failed', 'there is no final message to continue');
    const mark = `${this.sentinel} `;
    const { content } = last;
    const marked =
      typeof content === 'string'
        ? content + mark
        : [...content.slice(0, -1), { type: 'text' as const, text: (content.at(-1)?.text ?? '') + mark }];
    return [...prepared.slice(0, -1), { ...last, content: marked }];
  }

  /** @see transformers, apply_chat_template(continue_final_message=True) */
  #cut(rendered: string): string {
    const end = rendered.lastIndexOf(this.sentinel);
    if (end < 0) {
      const message = "the final message cannot be continued: its content is missing from the chat template's text";
      throw new TokenizerError('tokenizer.final_message_lost', message);
    }
    const keepsSpace = rendered.startsWith(' ', end + this.sentinel.length);
    return keepsSpace ? rendered.slice(0, end) : rendered.slice(0, end).trimEnd();
  }
}

/**
 * Number of leading messages whose calls keep their writing. Counts from the start, so that a beginning of the
 * conversation renders as it does alone.
 */
function numWrittenMessages(messages: readonly TemplateMessage[]): number {
  let length = 0;
  const end = messages.findIndex((message) => (length += argumentsLength(message)) > MAX_WRITTEN_ARGUMENTS);
  return end < 0 ? messages.length : end;
}

/**
 * Format of calls in replies to a template's prompts: the template's, or Hermes if it ignores tools.
 *
 * @returns null if it writes tools in an unknown format
 */
export function toolFormatOf({ source, tokenizer, toolSupport }: TemplateTraits): ToolFormat | null {
  if (!toolSupport.writesTools) return 'hermes';
  return detectToolFormat(source, (text) => tokenizer.encodeWithSpecial(text).length === 1);
}

/** True if the template would drop the tools, or, without tools, earlier calls. */
function needsHermes(
  traits: TemplateTraits,
  messages: readonly TemplateMessage[],
  tools: readonly unknown[] | null,
): boolean {
  if (tools !== null && tools.length > 0) return !traits.toolSupport.writesTools;
  const hasCalls = messages.some(({ tool_calls: calls }) => Array.isArray(calls) && calls.length > 0);
  return hasCalls && !traits.toolSupport.writesCalls && !traits.toolSupport.writesTools;
}
