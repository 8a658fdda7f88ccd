import { DEFAULT_PARAMS, DEFAULT_SAMPLING, type PlainParams, type SamplingParams } from '@trainyard/protocol/fields';

/** One immutable, published adapter version: `digest` is its identity, `directory` has its files. */
export interface AdapterVersion {
  readonly digest: string;
  readonly directory: string;
}

/**
 * One immutable adapter version as the engine loads it: `digest` is its identity, `path` a GGUF adapter file.
 */
export interface AdapterRef {
  readonly digest: string;
  readonly path: string;
}

/**
 * A sampling request entirely in tokens. Complete: its maker fills in defaults once, from
 * {@link DEFAULT_SAMPLE}.
 *
 * `n` is the width of a beam search. `includeStopString` keeps the end of the reply: a stop string, or the
 * text of a stopping token; for a beam its end token. `logprobTokenIds`, only with `logprobs`: entries of
 * these ids instead of the most likely ones, after the sampled token and in this order. `allowedTokenIds`:
 * only these can be generated. Either, and `repetitionDetection`: null = off.
 */
export interface SampleRequest extends PlainParams<'tokens'> {
  /** Unique among the requests in flight. */
  readonly requestId: string;
  /** Namespace, together with `cacheSalt` and the adapter's digest, inside which prompts may share memory. */
  readonly tenant: string;
  readonly adapter: AdapterRef | null;
  readonly sampling: SamplingParams;
  /** null = the rest of the context; larger values are clamped to it. */
  readonly maxTokens: number | null;
  /** null = off; k = the sampled token and k entries in `top`; -1 = the whole vocabulary. */
  readonly logprobs: number | null;
  /**
   * Logprobs of the prompt's own tokens, reported with `completed`: null = off, k = the actual token and the
   * k most likely, -1 = the whole vocabulary. The prompt is then computed, not read from the cache.
   */
  readonly promptLogprobs: number | null;
  /** True reports them in `prompt_scored`, before the first output, instead of in `completed`. */
  readonly promptLogprobsFirst: boolean;
  /** True reports the draws of a choice's tokens at its end. */
  readonly tracesSampling: boolean;
  /**
   * Searches the n likeliest replies instead of sampling them. Uses the prompt, n, maxTokens, ignoreEos,
   * includeStopString, skipSpecialTokens and logprobs; ignores all other fields that shape a reply. null =
   * off.
   */
  readonly beamSearch: { readonly lengthPenalty: number } | null;
  /**
   * Parent span for remote servers, in the form of the W3C Trace Context header `traceparent`; null = none.
   */
  readonly traceParent: string | null;
}

/** Default parameters. */
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
