import type { BackendMember, EngineStats, LoadedVersion } from '@trainyard/backend';
import type { TokenizeInput, TokenizerFacts } from '@trainyard/generation';

import type { BaseModel } from '../../seams/contract/base-models.ts';

/**
 * Every call is a POST below this path, with a JSON body. Every answer to a signed request is in frames
 * (`frames.ts`) with one JSON value; that of `generate` with a list of events per turn.
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

/** Headers of a request: its authorisation, see `signature.ts`; and in a hello the caller's protocol. */
export const SIGNATURE_HEADER = 'x-trainyard-signature';
export const PROTOCOL_HEADER = 'x-trainyard-protocol';

/** Largest body of a request, bytes: a chat of 8 MB plus its defaults, and text that grows in JSON. */
export const MAX_REQUEST_BYTES = 64_000_000;
/** Largest text of an answer, characters: log-probabilities over a whole vocabulary for a long prompt fit. */
export const MAX_TEXT_CHARACTERS = 256_000_000;
/** Largest answer to a hello, bytes: its sender is not authenticated yet. */
export const MAX_HELLO_BYTES = 16_384;

/** Statuses other than 200. None means that anything was sampled. */
export const STATUS = {
  /** The body is not a request of this protocol. */
  malformed: 400,
  /** No valid signature. The answer is empty and unsigned. */
  unauthorised: 401,
  /** Unknown session: send hello again. */
  unknownSession: 440,
  unknownPath: 404,
  tooLarge: 413,
  /** A {@link WireFault}: an error of the back end before its first event. */
  refused: 422,
  /** Another protocol, which the body names. */
  otherProtocol: 426,
  failed: 500,
  /** It drains: call another engine. */
  draining: 503,
} as const;

export interface HelloAnswer {
  readonly protocol: string;
  readonly version: string;
  /** session of the following requests */
  readonly session: string;
  /** proof that the engine has the secret, too */
  readonly proof: string;
}

/** A base model of an engine, with the facts that HTTP needs to check requests. */
export interface EngineModelFacts extends BaseModel {
  readonly tokenizer: TokenizerFacts;
}

export interface EngineModelState {
  readonly facts: EngineModelFacts;
  /** null while it is not in memory */
  readonly stats: EngineStats | null;
  /** servers that sample instead of the engine's machine */
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

/** An adapter to load before a request names it. */
export interface PublishCall {
  readonly model: string;
  readonly digest: string;
  /** its folder in the blob store */
  readonly directoryKey: string;
}

export interface PublishAnswer {
  /** reason if some servers of the engine refuse it; null: none does */
  readonly partial: string | null;
}

export interface RetireCall {
  readonly digest: string;
}
