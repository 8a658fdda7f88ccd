import type { TemplateMessage } from '@trainyard/tokenizer';
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

export type Prompt =
  | {
      kind: 'chat';
      messages: readonly TemplateMessage[];
      tools: readonly unknown[] | null;
      templateVariables: Record<string, unknown>;
      /** Default false. True adds the variables that training renders with, below the request's own: a rollout must be rendered as it will be trained. */
      rendersAsTraining?: boolean;
      /** Default true: end the prompt where the assistant's reply begins. */
      addGenerationPrompt?: boolean;
    }
  | { kind: 'tokens'; tokenIds: readonly number[] };

export interface GenerateRequest {
  /** Unique among the requests in flight. */
  requestId: string;
  /** With `cacheSalt` and the adapter's digest the namespace inside which prompts may share memory. */
  tenant: string;
  cacheSalt: string | null;
  adapter: AdapterRef | null;
  prompt: Prompt;
  /** Number of independent choices. */
  n: number;
  sampling: SamplingParams;
  /** null = the rest of the context; larger values than fit are clamped. */
  maxTokens: number | null;
  stop: readonly string[];
  stopTokenIds: readonly number[];
  ignoreEos: boolean;
  includeStopString: boolean;
  minTokens: number;
  /** null = off; k = the sampled token and k entries in `top`. */
  logprobs: number | null;
  /** Lower runs first; equal priorities in order of arrival. */
  priority: number;
  /** Default true: control tokens give no text (ids and logprobs always keep them). */
  skipSpecialTokens?: boolean;
}

export interface TopLogprob {
  id: number;
  /** Natural log, raw model distribution, floor -9999. */
  logprob: number;
  /** The token's true bytes, which may be a piece of a character. */
  bytes: number[];
  text: string;
}

export interface TokenLogprob extends TopLogprob {
  /** The sampled token, then the most likely others; exactly k entries for `logprobs: k`. */
  top: TopLogprob[];
}

export type FinishReason = 'stop' | 'length' | 'abort';

export interface Usage {
  promptTokens: number;
  /** Over all choices, each stopping token included. */
  completionTokens: number;
  /** Prompt tokens of the first choice that were already in memory when it was admitted. */
  cachedTokens: number;
}

/** What a request tells, in order: `started`, then deltas and one `finished` a choice, then `completed`; or `failed` at any point. */
export type EngineEvent =
  | { kind: 'started'; promptTokenIds: number[]; cachedTokens: number }
  | { kind: 'delta'; index: number; text: string; tokenIds: number[]; logprobs: TokenLogprob[] | null }
  | {
      kind: 'finished';
      index: number;
      text: string;
      tokenIds: number[];
      logprobs: TokenLogprob[] | null;
      finishReason: FinishReason;
      stopReason: string | number | null;
    }
  | { kind: 'completed'; usage: Usage }
  | { kind: 'failed'; code: EngineErrorCode; message: string; param: string | null };
