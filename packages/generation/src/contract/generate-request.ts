import {
  DEFAULT_SAMPLE,
  type SampledEnd,
  type SampledOutput,
  type SampleEvent,
  type SampleRequest,
  type SampleUsage,
} from '@trainyard/backend';
import { DEFAULT_PARAMS, type PlainParams } from '@trainyard/protocol/fields';
import type { ParsedReply, ReplyDelta, TemplateMessage, ToolDescription } from '@trainyard/tokenizer';

/** A conversation to render through a chat template. */
export interface ChatPrompt {
  readonly kind: 'chat';
  readonly messages: readonly TemplateMessage[];
  readonly tools: readonly unknown[] | null;
  /** `tools` as JSON, given to the template in their place, as Python reads it; null: `tools` is complete. */
  readonly toolsText: string | null;
  /** Template variables other than messages and tools, such as `documents` or `enable_thinking`. */
  readonly templateVariables: Readonly<Record<string, unknown>>;
  /** The variables as a JSON object; see `toolsText`. */
  readonly templateVariablesText: string | null;
  /** Ends the prompt at the start of the assistant's reply. */
  readonly addGenerationPrompt: boolean;
  /** True ends the prompt right after the last message's content, right-trimmed; needs `addGenerationPrompt: false`. */
  readonly continueFinalMessage: boolean;
  /**
   * False: the template writes all special tokens itself. True adds the vocabulary's own (BOS …) around its
   * output.
   */
  readonly addSpecialTokens: boolean;
  /**
   * Jinja source from the request that replaces the model's template; null = the model's. Rendered outside
   * this process.
   */
  readonly chatTemplate: string | null;
}

/** A conversation with default options. */
export const DEFAULT_CHAT_PROMPT: Omit<ChatPrompt, 'messages'> = Object.freeze({
  kind: 'chat',
  tools: null,
  toolsText: null,
  templateVariables: {},
  templateVariablesText: null,
  addGenerationPrompt: true,
  continueFinalMessage: false,
  addSpecialTokens: false,
  chatTemplate: null,
});

export type Prompt =
  | ChatPrompt
  /**
   * Trusted text: the texts of control tokens become those tokens. `addSpecialTokens` adds the vocabulary's
   * own (BOS …).
   */
  | { readonly kind: 'text'; readonly text: string; readonly addSpecialTokens: boolean }
  | { readonly kind: 'tokens'; readonly tokenIds: readonly number[] };

/** Settings for splitting a chat's reply into reasoning, tool calls and content. */
export interface ReplyReading {
  /** Tools of the request: their schemas type the values of formats that do not. null = none. */
  readonly tools: readonly ToolDescription[] | null;
  /** `tools` as JSON, if their properties are in another order there; null: `tools` is complete. */
  readonly toolsText: string | null;
  /**
   * `none`: calls stay text. `auto`: parses calls in the format that the template teaches. `required` or a
   * tool's name: constrains the reply to calls, or to the arguments of that tool, replacing the request's own
   * constraint.
   */
  readonly toolChoice: 'none' | 'auto' | 'required' | { readonly name: string };
  /** false: at most one call. */
  readonly parallelToolCalls: boolean;
}

/**
 * A sample request with the fields that need text: a conversation to render, stop strings, constraints, the
 * parts of a reply. Complete, like {@link SampleRequest}; {@link DEFAULT_GENERATE} has the defaults.
 *
 * `truncatePromptTokens` keeps the last k tokens of the prompt, or the first with `truncationSide: 'right'`,
 * after templating; -1 keeps what leaves room for `maxTokens` (1 if null). `skipSpecialTokens`: control
 * tokens give no text (ids and logprobs always keep them). `badWords` are not generated, as they are or after
 * a space; the prompt may contain them. `thinkingTokenBudget`: maximum tokens of reasoning, after which only
 * the end of the think block is allowed; no effect if the model's template has no reasoning, or the prompt
 * has closed the block.
 */
export interface GenerateRequest extends SampleRequest, PlainParams<'text'> {
  readonly prompt: Prompt;
  /**
   * Constraint on the text, a value that the engine's `constraints` compile; null = none. A completed
   * constraint ends the choice with `stop`, also under `ignoreEos`.
   */
  readonly constraint: unknown;
  /**
   * Text in the reply, such as `</think>`, after whose first occurrence the constraint starts; null = at
   * once.
   */
  readonly constraintStartsAfter: string | null;
  /** False: stop strings in the reasoning of a chat's reply do not end it. */
  readonly stopsInReasoning: boolean;
  /** Only with a chat prompt. null: the reply is text, and events have no `reply`. */
  readonly reply: ReplyReading | null;
}

/** Default parameters. */
export const DEFAULT_GENERATE: Omit<GenerateRequest, 'requestId' | 'tenant' | 'prompt'> = Object.freeze({
  ...DEFAULT_SAMPLE,
  ...DEFAULT_PARAMS.text,
  constraint: null,
  constraintStartsAfter: null,
  stopsInReasoning: true,
  reply: null,
});

/** {@link SampleUsage} with the tokens of reasoning. */
export interface Usage extends SampleUsage {
  /** Sum over all choices; absent if the model's template has no reasoning, or the request has no `reply`. */
  reasoningTokens?: number;
}

/** {@link SampleEvent}s with text, and with the parts of the reply if the request has a `reply`. */
export type EngineEvent =
  | Exclude<SampleEvent, { kind: 'delta' | 'finished' | 'completed' }>
  | ({
      kind: 'delta';
      /** New, final pieces of the reply's parts. */
      reply?: ReplyDelta;
    } & SampledOutput)
  | ({
      kind: 'finished';
      reply?: ReplyDelta;
      parsed?: ParsedReply;
    } & SampledEnd)
  | (Omit<Extract<SampleEvent, { kind: 'completed' }>, 'usage'> & { usage: Usage });
