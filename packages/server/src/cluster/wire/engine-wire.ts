import type { BackendMember, EngineStats, LoadedVersion } from '@trainyard/backend';
import type { TokenizeInput, TokenizerFacts } from '@trainyard/generation';

import type { BaseModel } from '../../seams/contract/base-models.ts';

/**
 * Everything is a POST below this path, with a body of JSON. Every answer to a signed request is in frames (`frames.ts`): of one JSON value, that of `generate` of
 * a list of events for each turn.
 */
export const ENGINE_PATHS = {
  hello: '/engine/v1/hello',
  state: '/engine/v1/state',
  generate: '/engine/v1/generate',
  tokenize: '/engine/v1/tokenize',
  detokenize: '/engine/v1/detokenize',
  tokenTexts: '/engine/v1/token-texts',
  publish: '/engine/v1/publish',
  retire: '/engine/v1/retire',
} as const;
export type EnginePath = (typeof ENGINE_PATHS)[keyof typeof ENGINE_PATHS];

/** Headers of a request: what it is authorised by, see `signature.ts`; and in a hello the protocol of who says it. */
export const SIGNATURE_HEADER = 'x-trainyard-signature';
export const PROTOCOL_HEADER = 'x-trainyard-protocol';

/** Largest body of a request, bytes: a chat of 8 MB with what its defaults add, and text that grows in JSON. */
export const MAX_REQUEST_BYTES = 64_000_000;
/** Largest text of an answer, characters: log-probabilities over a whole vocabulary for a long prompt stay below it. */
export const MAX_TEXT_CHARACTERS = 256_000_000;
/** Largest answer to a hello, bytes: whoever sends it has shown nothing yet. */
export const MAX_HELLO_BYTES = 16_384;

/** Statuses besides 200, none of which means that anything was sampled. */
export const STATUS = {
  /** The body is no request of this protocol. */
  malformed: 400,
  /** No signature that counts. Nothing is said, and nothing signed. */
  unauthorised: 401,
  /** The session is unknown: say hello again. */
  unknownSession: 440,
  unknownPath: 404,
  tooLarge: 413,
  /** A {@link WireFault}: what the back end threw before its first event. */
  refused: 422,
  /** Another protocol; the body says which. */
  otherProtocol: 426,
  failed: 500,
  /** It drains: ask another engine. */
  draining: 503,
} as const;

/** The answer to a hello. */
export interface HelloAnswer {
  readonly protocol: string;
  readonly version: string;
  /** of the requests that follow */
  readonly session: string;
  /** shows that the engine has the secret too */
  readonly proof: string;
}

/** A base model that an engine has: what HTTP checks requests by. */
export interface EngineModelFacts extends BaseModel {
  readonly tokenizer: TokenizerFacts;
}

export interface EngineModelState {
  readonly facts: EngineModelFacts;
  /** null while it is not in memory */
  readonly stats: EngineStats | null;
  /** servers that sample in place of the engine's machine */
  readonly members: readonly BackendMember[];
  /** adapters in the memory of the engine itself */
  readonly adapters: readonly LoadedVersion[];
}

export interface EngineState {
  readonly version: string;
  readonly isDraining: boolean;
  readonly trouble: string | null;
  readonly models: readonly EngineModelState[];
}

export interface TokenizeCall {
  readonly model: string;
  readonly input: TokenizeInput;
  readonly withTexts: boolean;
}

export interface TokensCall {
  readonly model: string;
  readonly tokenIds: readonly number[];
}

/** An adapter that is loaded before a request names it. */
export interface PublishCall {
  readonly model: string;
  readonly digest: string;
  /** its folder among the blobs */
  readonly directoryKey: string;
}

export interface PublishAnswer {
  /** why some servers of the engine refuse it; null: none does */
  readonly partial: string | null;
}

export interface RetireCall {
  readonly digest: string;
}
