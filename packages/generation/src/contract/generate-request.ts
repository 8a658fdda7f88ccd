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

/** A conversation, rendered through a chat template. */
export interface ChatPrompt {
  readonly kind: 'chat';
  readonly messages: readonly TemplateMessage[];
  readonly tools: readonly unknown[] | null;
  /** `tools` as JSON, which a template is given in their place, as Python reads it; null: `tools` says all. */
  readonly toolsText: string | null;
  /** Names the template knows besides messages and tools, such as `documents` or `enable_thinking`. */
  readonly templateVariables: Readonly<Record<string, unknown>>;
  /** The same as a JSON object, as `toolsText` is to `tools`. */
  readonly templateVariablesText: string | null;
  /** End the prompt where the assistant's reply begins. */
  readonly addGenerationPrompt: boolean;
  /** True ends the prompt right after the last message's content, right-trimmed; needs `addGenerationPrompt: false`. */
  readonly continueFinalMessage: boolean;
  /** False: the template writes all special tokens itself. True adds the vocabulary's own (BOS …) around what it wrote. */
  readonly addSpecialTokens: boolean;
  /** Jinja source from the request in place of the model's template; null = the model's. Rendered outside this process. */
  readonly chatTemplate: string | null;
}

/** A conversation that asks for nothing besides. */
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
  /** Trusted as it is: the texts of control tokens become those tokens. `addSpecialTokens` adds the vocabulary's own (BOS …). */
  | { readonly kind: 'text'; readonly text: string; readonly addSpecialTokens: boolean }
  | { readonly kind: 'tokens'; readonly tokenIds: readonly number[] };

/** How the text of a chat's reply is read: which part of it is reasoning, which are tool calls, which is content. */
export interface ReplyReading {
  /** The request's tools: their schemas type the values of formats that do not. null = none. */
  readonly tools: readonly ToolDescription[] | null;
  /** `tools` as JSON, where their properties have another order in it; null: `tools` says all. */
  readonly toolsText: string | null;
  /**
   * `none`: calls stay text. `auto`: calls in the format that the template teaches are read. `required`, or a tool's name: the reply is held to
   * calls, or to the arguments of that one tool, in place of the request's own constraint.
   */
  readonly toolChoice: 'none' | 'auto' | 'required' | { readonly name: string };
  /** false: one call at most. */
  readonly parallelToolCalls: boolean;
}

/**
 * And what needs text: a conversation to render, strings to look for, constraints, the parts of a reply. Complete, as {@link SampleRequest} is: {@link DEFAULT_GENERATE} has what was
 * not asked for.
 *
 * `truncatePromptTokens` keeps the last k tokens of the prompt, or the first with `truncationSide: 'right'`, after templating; -1 keeps what leaves room for `maxTokens` (1 when null).
 * `skipSpecialTokens`: control tokens give no text (ids and logprobs always keep them). `badWords` are not generated, each as it is and behind a space; the prompt may hold them.
 * `thinkingTokenBudget`: the most tokens of reasoning, then the end of the think block is the only thing that can come; no effect where the model's template knows no reasoning, or the
 * prompt has closed the block.
 */
export interface GenerateRequest extends SampleRequest, PlainParams<'text'> {
  readonly prompt: Prompt;
  /**
   * A constraint that the text must satisfy: a value that the engine's `constraints` compile; null = none. A completed constraint ends the choice with
   * `stop`, also under `ignoreEos`.
   */
  readonly constraint: unknown;
  /** The constraint begins behind the first occurrence of this text in the reply, such as `</think>`; null = at once. */
  readonly constraintStartsAfter: string | null;
  /** False: stop strings in the reasoning of a chat's reply do not end it. */
  readonly stopsInReasoning: boolean;
  /** With a chat prompt only. null: the reply is text, and events have no `reply`. */
  readonly reply: ReplyReading | null;
}

/** The parameters of a request that asks for nothing. */
export const DEFAULT_GENERATE: Omit<GenerateRequest, 'requestId' | 'tenant' | 'prompt'> = Object.freeze({
  ...DEFAULT_SAMPLE,
  ...DEFAULT_PARAMS.text,
  constraint: null,
  constraintStartsAfter: null,
  stopsInReasoning: true,
  reply: null,
});

/** {@link SampleUsage}, and what of it was reasoning. */
export interface Usage extends SampleUsage {
  /** Over all choices; absent where the model's template knows no reasoning, or the request has no `reply`. */
  reasoningTokens?: number;
}

/** {@link SampleEvent}s with text, and with the parts of the reply where the request has a `reply`. */
export type EngineEvent =
  | Exclude<SampleEvent, { kind: 'delta' | 'finished' | 'completed' }>
  | ({
      kind: 'delta';
      /** The new and certain pieces of the reply's parts. */
      reply?: ReplyDelta;
    } & SampledOutput)
  | ({
      kind: 'finished';
      reply?: ReplyDelta;
      /** The whole reply in its parts. */
      parsed?: ParsedReply;
    } & SampledEnd)
  | (Omit<Extract<SampleEvent, { kind: 'completed' }>, 'usage'> & { usage: Usage });
