import type { ChoiceSampling, TokenDraw } from '@trainyard/protocol/fields';
import type { EngineFailure } from './errors.ts';

export interface TokenDescription {
  id: number;
  /** Bytes of the token, which may be part of a character. */
  bytes: number[];
  text: string;
}

export interface TopLogprob extends TokenDescription {
  /** Natural log, minimum -9999, also if the request wants logits. See `LogprobsMode`. */
  logprob: number;
}

export interface TokenLogprob extends TopLogprob {
  /**
   * The sampled token, then the most likely others: exactly k entries for `logprobs: k` (a beam search: at
   * most 2n); or those requested by id.
   */
  top: TopLogprob[];
  /** Log Σ exp of the logits, if the request wants logits: a logit is a log-probability plus this. */
  logitSum?: number;
}

export interface PromptLogprob extends TopLogprob {
  /** 1 = the most likely of the vocabulary; ties count as more likely. */
  rank: number;
}

/** `repetition` comes with the stopReason `repetition_detected`. */
export type FinishReason = 'stop' | 'length' | 'repetition' | 'abort';

export interface SampleUsage {
  promptTokens: number;
  /** Sum over all choices, including each stopping token. */
  completionTokens: number;
  /** Prompt tokens of the first choice that were in memory at its admission. */
  cachedTokens: number;
}

/**
 * One item per prompt token: null for the first, else the actual token, then the most likely others in order.
 */
export type PromptLogprobs = (PromptLogprob[] | null)[];

export interface SampledOutput {
  index: number;
  /** Text of the tokens, from `RequestText`; '' without it. */
  text: string;
  tokenIds: number[];
  logprobs: TokenLogprob[] | null;
  /** Draw of the token, if requested and not trivial; null = too large. */
  draw?: TokenDraw | null;
}

/** Output with the end of the choice. */
export interface SampledEnd extends SampledOutput {
  /** Sampling of its tokens, if requested; null = directly from the model's distribution. */
  sampling?: ChoiceSampling | null;
  finishReason: FinishReason;
  stopReason: string | number | null;
}

/**
 * An event of a request. Order: `started`, `prompt_scored` if requested, then deltas and one `finished` per
 * choice, then `completed`; or `failed` at any point.
 */
export type SampleEvent =
  | { kind: 'started'; promptTokenIds: number[]; cachedTokens: number }
  /** `first`: the prompt's first token, which has no logprob. */
  | { kind: 'prompt_scored'; first: TokenDescription; promptLogprobs: PromptLogprobs }
  | ({ kind: 'delta' } & SampledOutput)
  | ({ kind: 'finished' } & SampledEnd)
  | {
      kind: 'completed';
      usage: SampleUsage;
      /** Set if requested, unless reported in `prompt_scored`. */
      promptLogprobs?: PromptLogprobs;
    }
  | ({ kind: 'failed' } & EngineFailure);
