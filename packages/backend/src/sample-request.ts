import { DEFAULT_PARAMS, DEFAULT_SAMPLING, type PlainParams, type SamplingParams } from '@trainyard/protocol/fields';

/** One immutable adapter version, as it is published: `digest` is its identity, `directory` has its files. */
export interface AdapterVersion {
  readonly digest: string;
  readonly directory: string;
}

/** One immutable adapter version, as the engine loads it: `digest` is its identity, `path` a GGUF adapter file. */
export interface AdapterRef {
  readonly digest: string;
  readonly path: string;
}

/**
 * A sampling request, expressed entirely in tokens. Complete: whoever makes one fills in what was not asked for, once, from {@link DEFAULT_SAMPLE}.
 *
 * `n` is the width of a beam search. `includeStopString` keeps what ended the reply: a stop string, or the text of a stopping token; of a beam its end token.
 * `logprobTokenIds`, with `logprobs` only: entries of these ids in place of the most likely ones, behind the sampled token and in this order. `allowedTokenIds`: only these can be
 * generated. Of either, and of `repetitionDetection`, null = off.
 */
export interface SampleRequest extends PlainParams<'tokens'> {
  /** Unique among the requests in flight. */
  readonly requestId: string;
  /** With `cacheSalt` and the adapter's digest the namespace inside which prompts may share memory. */
  readonly tenant: string;
  readonly adapter: AdapterRef | null;
  readonly sampling: SamplingParams;
  /** null = the rest of the context; larger values than fit are clamped. */
  readonly maxTokens: number | null;
  /** null = off; k = the sampled token and k entries in `top`; -1 = the whole vocabulary. */
  readonly logprobs: number | null;
  /**
   * Logprobs of the prompt's own tokens, given with `completed`: null = off, k = the actual token and the k most likely, -1 = the whole
   * vocabulary. The prompt is then computed, not read from the cache.
   */
  readonly promptLogprobs: number | null;
  /** True tells them in `prompt_scored`, before the first output, in place of `completed`. */
  readonly promptLogprobsFirst: boolean;
  /** True tells with the end of each choice what its tokens were drawn from. */
  readonly tracesSampling: boolean;
  /**
   * Searches the n likeliest replies instead of sampling them. Heeds the prompt, n, maxTokens, ignoreEos, includeStopString,
   * skipSpecialTokens and logprobs; all else that shapes a reply is ignored. null = off.
   */
  readonly beamSearch: { readonly lengthPenalty: number } | null;
  /** The span that sampling is a part of, as the header `traceparent` of W3C Trace Context says it, for servers elsewhere; null = none. */
  readonly traceParent: string | null;
}

/** The parameters of a request that asks for nothing. */
export const DEFAULT_SAMPLE: Omit<SampleRequest, 'requestId' | 'tenant'> = Object.freeze({
  ...DEFAULT_PARAMS.tokens,
  adapter: null,
  sampling: DEFAULT_SAMPLING,
  maxTokens: null,
  logprobs: null,
  promptLogprobs: null,
  promptLogprobsFirst: false,
  tracesSampling: false,
  beamSearch: null,
  traceParent: null,
});
