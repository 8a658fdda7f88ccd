import { createHash } from 'node:crypto';

/** The record of one sampled choice of an answer: the truth that training goes by, whatever a client kept of it. */
export interface NewChoiceRecord {
  /** Shared by the choices of one answer, unique otherwise. */
  answerId: string;
  choiceIndex: number;
  entityId: string;
  modelId: string;
  /** Version of the weights. */
  step: number;
  /** Digest of the adapter; null for base weights. */
  digest: string | null;
  promptTokenIds: Int32Array;
  /** The stopping one included. */
  tokenIds: Int32Array;
  /** Log-probabilities of the raw model; shape as `tokenIds`. */
  logprobs: Float32Array;
  /** How the tokens were drawn: null = plainly from the model's distribution; absent = not known. */
  sampling?: RecordedSampling | null;
}

/** Kept as it is; `settings` and `lost` are written as JSON. */
export interface RecordedSampling {
  settings: object;
  /** Null: it cannot be computed again, for the reason that `lost` is. */
  trace: { logprobs: Float32Array; kept: Uint8Array } | null;
  lost: string | null;
}

export interface ChoiceRecord extends NewChoiceRecord {
  /** Milliseconds since the epoch. */
  createdAt: number;
}

export interface ChoiceRecordLimits {
  /** How long a record can be found. Default 24 hours. */
  lifetimeMs: number;
  /** Most bytes of all records; above it the oldest answers go. Default 256 MB. */
  maxBytes: number;
}

export const DEFAULT_CHOICE_RECORD_LIMITS: ChoiceRecordLimits = {
  lifetimeMs: 24 * 3600 * 1000,
  maxBytes: 256_000_000,
};

/** The id under which a choice is found. */
export function choiceRecordId({ answerId, choiceIndex }: Pick<NewChoiceRecord, 'answerId' | 'choiceIndex'>): string {
  return `${answerId}-${choiceIndex}`;
}

/** Null for what is no id of a record. */
export function parseChoiceRecordId(id: string): { answerId: string; choiceIndex: number } | null {
  const [, answerId, index] = /^(.{1,64})-(\d{1,6})$/.exec(id) ?? [];
  return answerId === undefined ? null : { answerId, choiceIndex: Number(index) };
}

const BY_TOKENS = /^tokens:[0-9a-f]{32}$/;

/**
 * The id under which a choice is found by its own tokens and log-probabilities, for clients that keep no other. Equal choices that were drawn in different ways are not
 * found by it.
 */
export function recordIdByTokens({ tokenIds, logprobs }: Pick<NewChoiceRecord, 'tokenIds' | 'logprobs'>): string {
  const hash = createHash('sha256');
  for (const { buffer, byteOffset, byteLength } of [tokenIds, logprobs])
    hash.update(new Uint8Array(buffer, byteOffset, byteLength));
  return `tokens:${hash.digest('hex').slice(0, 32)}`;
}

export function isRecordIdByTokens(id: string): boolean {
  return BY_TOKENS.test(id);
}
