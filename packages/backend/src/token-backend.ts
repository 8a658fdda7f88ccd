import type { LostTrace, TokenDraw } from '@trainyard/protocol/fields';
import type { EngineStats } from './engine-stats.ts';
import type { Finish, RequestText } from './request-text.ts';
import type { SampleUsage } from './sample-event.ts';
import type { AdapterVersion, SampleRequest } from './sample-request.ts';

/**
 * A sampler: token ids in, token ids and log-probabilities out. It never renders, tokenises or decodes, so
 * every back end gets exactly the intended tokens, and its output can be trained on.
 *
 * A back end may refuse unsupported fields ({@link TokenBackendCapabilities}), by name and before it
 * computes; it never ignores a field silently. Each must pass `describeTokenBackend` of
 * `@trainyard/backend/testing`.
 */
export interface TokenBackend {
  readonly specVersion: 1;
  readonly capabilities: TokenBackendCapabilities;
  /** Models that it serves; known after `start` resolves. */
  readonly models: readonly BackendModel[];
  /**
   * Called once, before all else. @throws if it is unusable: the model is missing, the address unreachable
   */
  start(): Promise<void>;
  /** Ends requests in flight with `engine.aborted`. */
  close(): Promise<void>;
  /**
   * Allows requests to name this adapter version from now on. Loads it ahead of its first request, unless that
   * would evict adapters in use. A published one is loaded from its newest folder from now on: an older folder
   * with equal weights may have been removed.
   *
   * @returns the reason, for clients, why some of its servers refused it; null if none did
   * @throws {EngineError} engine.adapter_unreadable if all refused it
   */
  publish(adapter: AdapterVersion): Promise<string | null>;
  /**
   * Retires a version that no request will name any more; those in flight continue. Ignores unknown digests.
   */
  retire(digest: string): Promise<void>;
  /**
   * Samples `params.n` choices after a prompt. Output waits for the reader beyond a small buffer; a reader
   * that stops, or aborts, ends the request.
   *
   * @returns the totals, after the last choice's last token
   * @throws {EngineError} engine.invalid_request, naming the field; context_length_exceeded;
   *   engine.overloaded; engine.adapter_unreadable for an unpublished digest; engine.aborted; and the
   *   failures of requests
   */
  sample(
    tokenIds: readonly number[],
    params: SampleParams,
    signal: AbortSignal,
  ): AsyncGenerator<SampleOutput, SampleTotals, undefined>;
  /**
   * Scores each token: its log-probability under the model, given those before it.
   * @returns one item per token: null for the first
   * @throws as {@link TokenBackend.sample}
   */
  score(tokenIds: readonly number[], params: ScoreParams, signal: AbortSignal): Promise<ScoredTokens>;
  health(): Promise<BackendHealth>;
}

export interface BackendModel {
  readonly id: string;
  /** Maximum length of prompt and reply together, tokens. */
  readonly contextLength: number;
  readonly vocabSize: number;
  /** Largest rank of an adapter. Null or absent: no known limit. */
  readonly maxLoraRank?: number | null;
}

/** Abilities that not every sampler has. */
export type SampleFeature =
  | 'adapters'
  | 'allowedTokenIds'
  | 'bannedSequences'
  | 'beamSearch'
  /** Logits instead of log-probabilities. */
  | 'logits'
  | 'logprobTokenIds'
  /** Priorities other than 0. */
  | 'priorities'
  /** Logprobs of the distribution that was sampled from. */
  | 'processedLogprobs'
  | 'promptLogprobs'
  | 'repetitionDetection'
  /** Choice i of seed s equals the choice of seed s + i. */
  | 'seeds'
  | 'tracesSampling';

export interface TokenBackendCapabilities {
  readonly features: ReadonlySet<SampleFeature>;
  /**
   * True if it is in this process and consults {@link SampleParams.text} before each draw and after each
   * token: this is enough for masks, and a stop string costs no extra token. Otherwise masks are impossible,
   * and the text half reads the tokens and stops early.
   */
  readonly asksText: boolean;
  /** Reasons for missing features, for requests that need them; a few words. Default: none. */
  readonly reasons?: Readonly<Partial<Record<SampleFeature, string>>>;
  /** Kinds of constraints that it enforces from their specs, such as `json_schema`. */
  readonly constraints: ReadonlySet<string>;
  readonly maxRequests: number;
  readonly maxChoices: number;
}

/** A request in tokens, with the adapter by its digest. */
export interface SampleParams extends Omit<SampleRequest, 'requestId' | 'adapter'> {
  /** Digest of a published version; null = the base model. */
  readonly adapter: string | null;
  /** Banned token sequences. */
  readonly bannedSequences: readonly (readonly number[])[];
  /** A constraint of a kind that it enforces; null = none. */
  readonly constraint: { readonly kind: string } | null;
  /** Null unless `asksText`. Stays the caller's, who closes it. */
  readonly text: RequestText | null;
}

export interface ScoreParams extends Pick<SampleParams, 'tenant' | 'cacheSalt' | 'adapter' | 'priority'> {
  /** Entries in addition to the actual token: 0 = none, k = the k most likely. */
  readonly numTop: number;
}

export interface SampledLogprob {
  readonly id: number;
  /** Natural log, minimum -9999. See `LogprobsMode`. */
  readonly logprob: number;
}

/** A sampled token with the alternatives of its step. */
export interface SampledEntry extends SampledLogprob {
  readonly top: readonly SampledLogprob[];
  /** See `TokenLogprob`. */
  readonly logitSum?: number;
}

export interface ScoredLogprob extends SampledLogprob {
  /** 1 = the most likely of the vocabulary. */
  readonly rank: number;
}

/** One list per token: the actual one, then the most likely others in order. */
export type ScoredTokens = readonly (readonly ScoredLogprob[] | null)[];

/** Output in this order, the first two once; `prompt_scored` if `promptLogprobsFirst` requests it. */
export type SampleOutput =
  | { readonly kind: 'started'; readonly cachedTokens: number }
  | { readonly kind: 'prompt_scored'; readonly promptLogprobs: ScoredTokens }
  | SampledTokens;

/** Tokens that one step adds to one choice. */
export interface SampledTokens {
  readonly kind: 'tokens';
  readonly index: number;
  readonly tokenIds: readonly number[];
  /** Result of {@link SampleParams.text}, if `asksText`. */
  readonly text?: string;
  /** One entry per token, if requested. */
  readonly logprobs: readonly SampledEntry[] | null;
  /** null = the choice continues. */
  readonly finish: Finish | null;
  /**
   * One draw per token, if the request wants a trace and its choices are not sampled directly from the model.
   * None for greedy choices, which draw nothing, and for beams.
   */
  readonly draws?: readonly ReportedDraw[];
}

/**
 * Draw of one token, or the reason why there is none from this token on: its sets take too much memory, or
 * the server did not report enough.
 */
export type ReportedDraw = (TokenDraw & Partial<UnderConstraint>) | Extract<LostTrace, 'too_large' | 'undetermined'>;

/** A constraint enforced by a server removed tokens from `kept`; the reader of the text knows which. */
export interface UnderConstraint {
  /** Some of the tokens left by the server. */
  readonly possibleIds: readonly number[];
}

export interface SampleTotals extends SampleUsage {
  /** Set if requested, unless reported in `prompt_scored`. */
  readonly promptLogprobs?: ScoredTokens;
}

export interface BackendHealth {
  /** Reason why it is unreliable now, in words that name no file; null if there is none. */
  readonly problem: string | null;
  /** Null if not reported. */
  readonly stats: EngineStats | null;
  /** Its servers. Absent: it has none. */
  readonly members?: readonly BackendMember[];
  /** Adapters in its own memory. Absent: none, or its members have them. */
  readonly adapters?: readonly LoadedVersion[];
}

/** An adapter version in the memory of a sampler. */
export interface LoadedVersion {
  readonly digest: string;
  /** Time at which it was loaded or found, ms since 1970. */
  readonly since: number;
}

export interface RefusedVersion {
  readonly digest: string;
  /** Reason for clients, without file names. */
  readonly reason: string;
  /** Time of the next attempt, ms since 1970. */
  readonly until: number;
}

/** One server of a back end with several; totals count from the start of this process. */
export interface BackendMember {
  /** Its address, without a path. */
  readonly name: string;
  /** An engine of this service on another machine, or a vLLM server. */
  readonly kind: 'engine' | 'vllm';
  /**
   * `up`: accepts requests. `draining`: accepts no new ones, and finishes its own. `failing`: its health is
   * good but its requests fail; it is probed until one succeeds. `down`: unreachable, its requests are lost.
   * `unfit`: it responds but is, for example, another model.
   */
  readonly state: 'up' | 'draining' | 'failing' | 'down' | 'unfit';
  /** Null while it is up. */
  readonly trouble: string | null;
  /** Null if not reported. */
  readonly version: string | null;
  /** Choices in flight. */
  readonly numChoices: number;
  /** Used share of its KV cache, 0 to 1, as of the last check. Null if not reported. */
  readonly kvUse: number | null;
  readonly numAdapters: number;
  /** Its adapters. Absent: not reported. */
  readonly adapters?: readonly LoadedVersion[];
  /** Adapters that it refused recently and that are not requested now. Absent: none. */
  readonly refused?: readonly RefusedVersion[];
  /** Servers that sample for it. Absent: none. */
  readonly members?: readonly BackendMember[];
  readonly numRequests: number;
  /** Requests that failed there by its fault. */
  readonly numFailures: number;
  readonly numLosses: number;
  readonly numTokens: number;
}
