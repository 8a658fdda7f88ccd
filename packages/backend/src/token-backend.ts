import type { LostTrace, TokenDraw } from '@trainyard/protocol/fields';
import type { EngineStats } from './engine-stats.ts';
import type { Finish, RequestText } from './request-text.ts';
import type { SampleUsage } from './sample-event.ts';
import type { AdapterVersion, SampleRequest } from './sample-request.ts';

/**
 * Whatever samples: token ids in, token ids and log-probabilities out. It renders, tokenises and decodes nothing, so that every back end is given exactly the tokens that
 * are meant, and what it gives can be trained on.
 *
 * A back end may refuse what it cannot do ({@link TokenBackendCapabilities}), by name and before it computes; it never leaves a field out in silence. `describeTokenBackend`
 * of `@trainyard/backend/testing` is what each one passes.
 */
export interface TokenBackend {
  /** Version of this interface. */
  readonly specVersion: 1;
  readonly capabilities: TokenBackendCapabilities;
  /** Models that it serves; known once `start` resolved. */
  readonly models: readonly BackendModel[];
  /** Once, before all else. @throws what makes it useless: no such model, nobody at the address */
  start(): Promise<void>;
  /** Ends what is in flight with `engine.aborted`. */
  close(): Promise<void>;
  /**
   * From now on requests may name this adapter version. One that is published again is left as it is. It is loaded ahead of its first request, unless that takes the
   * room of adapters that are being sampled from.
   * @returns why a part of its servers did not take it, for clients; null: none refused it
   * @throws {EngineError} engine.adapter_unreadable when none took it
   */
  publish(adapter: AdapterVersion): Promise<string | null>;
  /** No request will name it any more; those in flight go on. Unknown digests are ignored. */
  retire(digest: string): Promise<void>;
  /**
   * Samples `params.n` choices behind a prompt. Nothing is produced ahead of a reader beyond a small buffer; who stops reading, or aborts, ends the request.
   *
   * @returns the totals, behind the last choice's last token
   * @throws {EngineError} engine.invalid_request, naming the field; context_length_exceeded; engine.overloaded; engine.adapter_unreadable for a digest that is
   *   not published; engine.aborted; and what a request can fail with
   */
  sample(
    tokenIds: readonly number[],
    params: SampleParams,
    signal: AbortSignal,
  ): AsyncGenerator<SampleOutput, SampleTotals, undefined>;
  /**
   * The log-probability of each token under the model, given those before it.
   * @returns one item a token: null for the first
   * @throws as {@link TokenBackend.sample}
   */
  score(tokenIds: readonly number[], params: ScoreParams, signal: AbortSignal): Promise<ScoredTokens>;
  health(): Promise<BackendHealth>;
}

export interface BackendModel {
  readonly id: string;
  /** Longest sequence, prompt and reply together, tokens. */
  readonly contextLength: number;
  readonly vocabSize: number;
  /** Largest rank of an adapter. Null or absent: any, as far as is known. */
  readonly maxLoraRank?: number | null;
}

/** Abilities that not every sampler has. */
export type SampleFeature =
  | 'adapters'
  | 'allowedTokenIds'
  | 'bannedSequences'
  | 'beamSearch'
  /** Logits in place of log-probabilities. */
  | 'logits'
  | 'logprobTokenIds'
  /** Others than 0. */
  | 'priorities'
  /** Logprobs of the distribution that was drawn from. */
  | 'processedLogprobs'
  | 'promptLogprobs'
  | 'repetitionDetection'
  /** Choice i of seed s is the choice of seed s + i. */
  | 'seeds'
  | 'tracesSampling';

export interface TokenBackendCapabilities {
  readonly features: ReadonlySet<SampleFeature>;
  /**
   * It is in this process and asks {@link SampleParams.text} before each draw and behind each token: masks need no more than that, and a stop string costs no token. Else masks cannot be,
   * and whoever knows text reads along and leaves.
   */
  readonly asksText: boolean;
  /** Why a feature is not there, for whoever asks for it; a few words. Default: nothing is said. */
  readonly reasons?: Readonly<Partial<Record<SampleFeature, string>>>;
  /** Kinds of constraints that it enforces when it is given their specs, such as `json_schema`. */
  readonly constraints: ReadonlySet<string>;
  /** Requests in flight. */
  readonly maxRequests: number;
  /** Choices of one request. */
  readonly maxChoices: number;
}

/** A request in tokens, the adapter by its digest. */
export interface SampleParams extends Omit<SampleRequest, 'requestId' | 'adapter'> {
  /** Digest of a published version; null = the base model. */
  readonly adapter: string | null;
  /** Token sequences that must not come. */
  readonly bannedSequences: readonly (readonly number[])[];
  /** A constraint of a kind that it enforces; null = none. */
  readonly constraint: { readonly kind: string } | null;
  /** Where it asks; else null. It stays the caller's, who closes it. */
  readonly text: RequestText | null;
}

export interface ScoreParams extends Pick<SampleParams, 'tenant' | 'cacheSalt' | 'adapter' | 'priority'> {
  /** Entries besides the actual token: 0 = none, k = the k most likely. */
  readonly numTop: number;
}

export interface SampledLogprob {
  readonly id: number;
  /** Natural log, floor -9999. See `LogprobsMode`. */
  readonly logprob: number;
}

/** A sampled token with the others of its step. */
export interface SampledEntry extends SampledLogprob {
  readonly top: readonly SampledLogprob[];
  /** As in `TokenLogprob`. */
  readonly logitSum?: number;
}

export interface ScoredLogprob extends SampledLogprob {
  /** 1 = the most likely of the vocabulary. */
  readonly rank: number;
}

/** One list a token: the actual one, then the most likely others in order. */
export type ScoredTokens = readonly (readonly ScoredLogprob[] | null)[];

/** In this order, the first two once; `prompt_scored` where `promptLogprobsFirst` asks for it. */
export type SampleOutput =
  | { readonly kind: 'started'; readonly cachedTokens: number }
  | { readonly kind: 'prompt_scored'; readonly promptLogprobs: ScoredTokens }
  | SampledTokens;

/** The tokens that one step adds to one choice. */
export interface SampledTokens {
  readonly kind: 'tokens';
  readonly index: number;
  readonly tokenIds: readonly number[];
  /** Where it asks {@link SampleParams.text}: what that made of them. */
  readonly text?: string;
  /** One entry a token, when the request wants them. */
  readonly logprobs: readonly SampledEntry[] | null;
  /** null = the choice goes on. */
  readonly finish: Finish | null;
  /**
   * One a token, when the request asks for a trace and its choices are not plainly drawn from the model. None for greedy choices, which draw nothing, and for beams.
   */
  readonly draws?: readonly ReportedDraw[];
}

/** The draw of one token, or why there is none from this token on: its sets take too much memory, or the server did not report enough. */
export type ReportedDraw = (TokenDraw & Partial<UnderConstraint>) | Extract<LostTrace, 'too_large' | 'undetermined'>;

/** A constraint that a server enforced took more tokens away than `kept` says; the reader of the text knows which. */
export interface UnderConstraint {
  /** Some of the tokens that the server left. */
  readonly possibleIds: readonly number[];
}

export interface SampleTotals extends SampleUsage {
  /** When asked for, and not told in `prompt_scored`. */
  readonly promptLogprobs?: ScoredTokens;
}

export interface BackendHealth {
  /** Why it cannot be relied on now, in words that name no file; null when all is well. */
  readonly trouble: string | null;
  /** Null where it does not say. */
  readonly stats: EngineStats | null;
  /** The servers that it consists of. Absent: it is none of such. */
  readonly members?: readonly BackendMember[];
  /** Adapters that it has in memory itself. Absent: none, or its members have them. */
  readonly adapters?: readonly LoadedVersion[];
}

/** An adapter version in the memory of a sampler. */
export interface LoadedVersion {
  readonly digest: string;
  /** When it was loaded, or found to be there, ms since 1970. */
  readonly since: number;
}

/** An adapter version that a server refused to load. */
export interface RefusedVersion {
  readonly digest: string;
  /** Reason in words for clients, which name no file. */
  readonly reason: string;
  /** When the server is asked again, ms since 1970. */
  readonly until: number;
}

/** One server of a back end that consists of several; totals count from the start of this process. */
export interface BackendMember {
  /** Its address, without a path. */
  readonly name: string;
  /** An engine of this service on another machine, or a vLLM server. */
  readonly kind: 'engine' | 'vllm';
  /**
   * `up`: takes requests. `draining`: takes no new ones, and goes on with what it has. `failing`: its health is well and its requests fail; it is probed until one
   * succeeds. `down`: not to be had, what it had is lost. `unfit`: it answers, and is another model, say.
   */
  readonly state: 'up' | 'draining' | 'failing' | 'down' | 'unfit';
  /** Null while it is up. */
  readonly trouble: string | null;
  /** Null where it does not say. */
  readonly version: string | null;
  /** Choices in flight. */
  readonly numChoices: number;
  /** The part of its KV cache that is in use, 0 to 1, as of the last look at it. Null where it does not say. */
  readonly kvUse: number | null;
  readonly numAdapters: number;
  /** Those that it has. Absent: it does not say which. */
  readonly adapters?: readonly LoadedVersion[];
  /** Those that it refused a short time ago, and is not asked for now. Absent: none. */
  readonly refused?: readonly RefusedVersion[];
  /** Servers that sample for it. Absent: none. */
  readonly members?: readonly BackendMember[];
  readonly numRequests: number;
  /** Requests that failed there by its fault. */
  readonly numFailures: number;
  /** Times that it was lost. */
  readonly numLosses: number;
  readonly numTokens: number;
}
