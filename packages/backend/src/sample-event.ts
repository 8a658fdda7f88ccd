import type { ChoiceSampling, TokenDraw } from '@trainyard/protocol/fields';
import type { EngineFailure } from './errors.ts';

export interface TokenDescription {
  id: number;
  /** The token's true bytes, which may be a piece of a character. */
  bytes: number[];
  text: string;
}

export interface TopLogprob extends TokenDescription {
  /** Natural log, floor -9999, also where the request wants logits. See `LogprobsMode`. */
  logprob: number;
}

export interface TokenLogprob extends TopLogprob {
  /** The sampled token, then the most likely others: exactly k entries for `logprobs: k` (a beam search: at most 2n); or those asked for by id. */
  top: TopLogprob[];
  /** Log Σ exp of the logits, where the request wants logits: a logit is a log-probability plus this. */
  logitSum?: number;
}

export interface PromptLogprob extends TopLogprob {
  /** 1 = the most likely of the vocabulary; equally likely ones count as more likely. */
  rank: number;
}

/** `repetition` comes with the stopReason `repetition_detected`. */
export type FinishReason = 'stop' | 'length' | 'repetition' | 'abort';

export interface SampleUsage {
  promptTokens: number;
  /** Over all choices, each stopping token included. */
  completionTokens: number;
  /** Prompt tokens of the first choice that were already in memory when it was admitted. */
  cachedTokens: number;
}

/** One item a prompt token: null for the first, else the actual token, then the most likely others in order. */
export type PromptLogprobs = (PromptLogprob[] | null)[];

/** The addition of one step to one choice. */
export interface SampledOutput {
  index: number;
  /** Their text, from whoever knows text (`RequestText`); '' without. */
  text: string;
  tokenIds: number[];
  logprobs: TokenLogprob[] | null;
  /** Where the submission asks and there is something to tell: what its token was drawn from; null = too much to tell. */
  draw?: TokenDraw | null;
}

/** And its end. */
export interface SampledEnd extends SampledOutput {
  /** When the request asks: how its tokens were drawn; null = plainly from the model's distribution. */
  sampling?: ChoiceSampling | null;
  finishReason: FinishReason;
  stopReason: string | number | null;
}

/**
 * An event of a request. In order: `started`, `prompt_scored` where it asked for that, then deltas and one `finished` a choice, then
 * `completed`; or `failed` at any point.
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
      /** Only when asked for, and not told in `prompt_scored`. */
      promptLogprobs?: PromptLogprobs;
    }
  | ({ kind: 'failed' } & EngineFailure);
