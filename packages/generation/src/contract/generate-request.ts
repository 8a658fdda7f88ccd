import type { SampledEnd, SampledOutput, SampleEvent, SampleRequest, SampleUsage } from '@trainyard/backend';
import type { ParsedReply, ReplyDelta, TemplateMessage, ToolDescription } from '@trainyard/tokenizer';

/** A conversation, rendered through a chat template. */
export interface ChatPrompt {
  kind: 'chat';
  messages: readonly TemplateMessage[];
  tools: readonly unknown[] | null;
  /** Names the template knows besides messages and tools, such as `documents` or `enable_thinking`. */
  templateVariables: Record<string, unknown>;
  /** Default false. True adds the variables that training renders with, below the request's own: a rollout must be rendered as it will be trained. */
  rendersAsTraining?: boolean;
  /** Default true: end the prompt where the assistant's reply begins. */
  addGenerationPrompt?: boolean;
  /** Default false. True ends the prompt right after the last message's content, right-trimmed; needs `addGenerationPrompt: false`. */
  continueFinalMessage?: boolean;
  /** Default false: the template writes all special tokens itself. True adds the vocabulary's own (BOS …) around what it wrote. */
  addSpecialTokens?: boolean;
  /** Jinja source from the request in place of the model's template; null = the model's. Rendered outside this process. */
  chatTemplate?: string | null;
}

export type Prompt =
  | ChatPrompt
  /** Trusted as it is: the texts of control tokens become those tokens. `addSpecialTokens` adds the vocabulary's own (BOS …). */
  | { kind: 'text'; text: string; addSpecialTokens: boolean }
  | { kind: 'tokens'; tokenIds: readonly number[] };

/** How the text of a chat's reply is read: which part of it is reasoning, which are tool calls, which is content. */
export interface ReplyReading {
  /** The request's tools: their schemas type the values of formats that do not. null = none. */
  tools: readonly ToolDescription[] | null;
  /**
   * `none`: calls stay text. `auto`: calls in the format that the template teaches are read. `required`, or a tool's name: the reply is held to
   * calls, or to the arguments of that one tool, in place of the request's own constraint.
   */
  toolChoice: 'none' | 'auto' | 'required' | { name: string };
  /** false: one call at most. */
  parallelToolCalls: boolean;
}

/** And what needs text: a conversation to render, strings to look for, constraints, the parts of a reply. */
export interface GenerateRequest extends SampleRequest {
  prompt: Prompt;
  /** Keeps the last k tokens of the prompt, after templating; -1 keeps what leaves room for `maxTokens` (1 when null). Default null = all. */
  truncatePromptTokens?: number | null;
  /** The side of the prompt that is cut. Default `left`: its end is where the reply goes on. */
  truncationSide?: 'left' | 'right';
  stop: readonly string[];
  /** Default true: control tokens give no text (ids and logprobs always keep them). */
  skipSpecialTokens?: boolean;
  /** Texts that are not generated, each as it is and behind a space. The prompt may hold them. Default none. */
  badWords?: readonly string[];
  /**
   * A constraint that the text must satisfy: a value that the engine's `constraints` compile. Default null. A completed constraint ends the choice with
   * `stop`, also under `ignoreEos`.
   */
  constraint?: unknown;
  /** The constraint begins behind the first occurrence of this text in the reply, such as `</think>`; null = at once. Default null. */
  constraintStartsAfter?: string | null;
  /**
   * The most tokens of reasoning: then the end of the think block is the only thing that can come. No effect where the model's template
   * knows no reasoning, or the prompt has closed the block. Default null = any number.
   */
  thinkingTokenBudget?: number | null;
  /** With a chat prompt only. Default null: the reply is text, and events have no `reply`. */
  reply?: ReplyReading | null;
}

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
      /** What is new and certain of the reply's parts. */
      reply?: ReplyDelta;
    } & SampledOutput)
  | ({
      kind: 'finished';
      reply?: ReplyDelta;
      /** The whole reply in its parts. */
      parsed?: ParsedReply;
    } & SampledEnd)
  | (Omit<Extract<SampleEvent, { kind: 'completed' }>, 'usage'> & { usage: Usage });
