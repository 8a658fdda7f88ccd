import type { ChoiceSampling, ParsedReply, ReplyDelta, TemplateMessage, ToolDescription } from '@trainyard/tokenizer';
import type { EngineErrorCode } from './errors.ts';

/** One immutable adapter version: `digest` is its identity, `path` a GGUF adapter file. */
export interface AdapterRef {
  digest: string;
  path: string;
}

/** How one token is chosen from a row of logits. See sampler.ts for the order of the steps. */
export interface SamplingParams {
  /** 0 is greedy; otherwise logits are divided by it. */
  temperature: number;
  /** (0, 1]; 1 = off. */
  topP: number;
  /** 0 = off; ties at the k-th logit all survive. */
  topK: number;
  /** [0, 1]; 0 = off. Measured after temperature. */
  minP: number;
  presencePenalty: number;
  frequencyPenalty: number;
  /** > 0; 1 = off. Counts the prompt too. */
  repetitionPenalty: number;
  /** `[token id, bias]`, clamped to ±100. */
  logitBias: readonly (readonly [number, number])[];
  /** Choice i draws from `seed + i`; null takes a seed from the system's randomness. */
  seed: bigint | null;
}

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

/** Ends a choice whose last tokens are one pattern again and again. Looks at generated tokens only. */
export interface RepetitionDetection {
  /** Longest pattern looked for, tokens; 0 = off. */
  maxPatternSize: number;
  /** 0 counts as 1. */
  minPatternSize: number;
  /** Occurrences in a row that end the choice, at least 2. */
  minCount: number;
}

/** `raw`: of the model's distribution (after a constraint's mask, before everything else). `processed`: of the one the token was drawn from. */
export type LogprobsMode = 'raw' | 'processed';

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

/** What is sampled behind a prompt, as far as it can be said in tokens. */
export interface SampleRequest {
  /** Unique among the requests in flight. */
  requestId: string;
  /** With `cacheSalt` and the adapter's digest the namespace inside which prompts may share memory. */
  tenant: string;
  cacheSalt: string | null;
  adapter: AdapterRef | null;
  /** Number of independent choices; the width of a beam search. */
  n: number;
  sampling: SamplingParams;
  /** null = the rest of the context; larger values than fit are clamped. */
  maxTokens: number | null;
  stopTokenIds: readonly number[];
  ignoreEos: boolean;
  /** Keeps what ended the reply: a stop string, or the text of a stopping token; of a beam its end token. */
  includeStopString: boolean;
  minTokens: number;
  /** null = off; k = the sampled token and k entries in `top`; -1 = the whole vocabulary. */
  logprobs: number | null;
  /** With `logprobs` only: entries of these ids in place of the most likely ones, behind the sampled token and in this order. Default null. */
  logprobTokenIds?: readonly number[] | null;
  /** Default `raw`. */
  logprobsMode?: LogprobsMode;
  /**
   * Logprobs of the prompt's own tokens, given with `completed`: null = off, k = the actual token and the k most likely, -1 = the whole
   * vocabulary. The prompt is then computed, not read from the cache. Default null.
   */
  promptLogprobs?: number | null;
  /** Default false. True tells them in `prompt_scored`, before the first output, in place of `completed`. */
  promptLogprobsFirst?: boolean;
  /** Default false. True tells with the end of each choice what its tokens were drawn from. */
  tracesSampling?: boolean;
  /** Lower runs first; equal priorities in order of arrival. */
  priority: number;
  /** Only these ids can be generated; null = all. Default null. */
  allowedTokenIds?: readonly number[] | null;
  /** Default null = off. */
  repetitionDetection?: RepetitionDetection | null;
  /**
   * Searches the n likeliest replies instead of sampling them. Heeds the prompt, n, maxTokens, ignoreEos, includeStopString,
   * skipSpecialTokens and logprobs; all else that shapes a reply is ignored. Default null.
   */
  beamSearch?: { lengthPenalty: number } | null;
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
   * What the text must match: a value that the engine's `constraints` compile. Default null. A completed constraint ends the choice with
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

export interface TokenFace {
  id: number;
  /** The token's true bytes, which may be a piece of a character. */
  bytes: number[];
  text: string;
}

export interface TopLogprob extends TokenFace {
  /** Natural log, floor -9999. See {@link LogprobsMode}. */
  logprob: number;
}

export interface TokenLogprob extends TopLogprob {
  /** The sampled token, then the most likely others: exactly k entries for `logprobs: k` (a beam search: at most 2n); or those asked for by id. */
  top: TopLogprob[];
}

export interface PromptLogprob extends TopLogprob {
  /** 1 = the most likely of the vocabulary; equally likely ones count as more likely. */
  rank: number;
}

/** `repetition` comes with the stopReason `repetition_detected`. */
export type FinishReason = 'stop' | 'length' | 'repetition' | 'abort';

export interface Usage {
  promptTokens: number;
  /** Over all choices, each stopping token included. */
  completionTokens: number;
  /** Prompt tokens of the first choice that were already in memory when it was admitted. */
  cachedTokens: number;
  /** Over all choices; absent where the model's template knows no reasoning, or the request has no `reply`. */
  reasoningTokens?: number;
}

/** One item a prompt token: null for the first, else the actual token, then the most likely others in order. */
export type PromptLogprobs = (PromptLogprob[] | null)[];

/**
 * What a request tells, in order: `started`, `prompt_scored` where it asked for that, then deltas and one `finished` a choice, then
 * `completed`; or `failed` at any point.
 */
export type EngineEvent =
  | { kind: 'started'; promptTokenIds: number[]; cachedTokens: number }
  /** `first`: the prompt's first token, which has no logprob. */
  | { kind: 'prompt_scored'; first: TokenFace; promptLogprobs: PromptLogprobs }
  | {
      kind: 'delta';
      index: number;
      text: string;
      tokenIds: number[];
      logprobs: TokenLogprob[] | null;
      /** What is new and certain of the reply's parts; present when the request has a `reply`. */
      reply?: ReplyDelta;
    }
  | {
      kind: 'finished';
      index: number;
      text: string;
      tokenIds: number[];
      logprobs: TokenLogprob[] | null;
      reply?: ReplyDelta;
      /** The whole reply in its parts; present when the request has a `reply`. */
      parsed?: ParsedReply;
      /** When the request asks: how its tokens were drawn; null = plainly from the model's distribution. */
      sampling?: ChoiceSampling | null;
      finishReason: FinishReason;
      stopReason: string | number | null;
    }
  | {
      kind: 'completed';
      usage: Usage;
      /** Only when asked for, and not told in `prompt_scored`. */
      promptLogprobs?: PromptLogprobs;
    }
  | { kind: 'failed'; code: EngineErrorCode; message: string; param: string | null };
