import type { SamplingParams } from '@trainyard/protocol/fields';

/** One immutable adapter version, as it is published: `digest` is its identity, `directory` has its files. */
export interface AdapterVersion {
  readonly digest: string;
  readonly directory: string;
}

/** One immutable adapter version, as the engine loads it: `digest` is its identity, `path` a GGUF adapter file. */
export interface AdapterRef {
  digest: string;
  path: string;
}

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

/** A sampling request, expressed entirely in tokens. */
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
