import { createHash } from 'node:crypto';

/** Records of sampled choices. */
export interface ChoiceRecords {
  /**
   * Keeps a sampled choice for a while, as safely as usage. Keeps nothing for a deleted model. Needs one
   * log-probability per token (asserted).
   * @returns the id with which `find` finds it in every process. While the store cannot be
   *   written, the id is returned after half a second and is found later
   */
  add(record: NewChoiceRecord): Promise<string>;
  /**
   * Known records of the entity, by id. Records stay until `purgeExpired`, or until newer ones need their
   * room. Writes the buffer first.
   */
  find(entityId: string, recordIds: readonly string[]): Promise<Map<string, ChoiceRecord>>;
}

/** Record of one sampled choice of an answer. Training relies on it and not on the client's copy. */
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
  /** Sampled tokens, including the stop token. */
  tokenIds: Int32Array;
  /** Log-probabilities of the raw model; shape as `tokenIds`. */
  logprobs: Float32Array;
  /** Settings of the draw: null = sampled directly from the model's distribution; absent = unknown. */
  sampling?: RecordedSampling | null;
}

/** Kept unchanged; `settings` and `lost` are written as JSON. */
export interface RecordedSampling {
  settings: object;
  /** Null if it cannot be computed again; `lost` is the reason. */
  trace: { logprobs: Float32Array; kept: Uint8Array } | null;
  lost: string | null;
}

export interface ChoiceRecord extends NewChoiceRecord {
  /** Milliseconds since the epoch. */
  createdAt: number;
}

export interface ChoiceRecordLimits {
  /** Lifetime of a record. Default 24 hours. */
  lifetimeMs: number;
  /** Maximum bytes of all records; above it the oldest answers are removed. Default 256 MB. */
  maxBytes: number;
}

export const DEFAULT_CHOICE_RECORD_LIMITS: ChoiceRecordLimits = {
  lifetimeMs: 24 * 3600 * 1000,
  maxBytes: 256_000_000,
};

export function choiceRecordId({ answerId, choiceIndex }: Pick<NewChoiceRecord, 'answerId' | 'choiceIndex'>): string {
  return `${answerId}-${choiceIndex}`;
}

/** Returns null if it is not the id of a record. */
export function parseChoiceRecordId(id: string): { answerId: string; choiceIndex: number } | null {
  const [, answerId, index] = /^(.{1,64})-(\d{1,6})$/.exec(id) ?? [];
  return answerId === undefined ? null : { answerId, choiceIndex: Number(index) };
}

const BY_TOKENS = /^tokens:[0-9a-f]{32}$/;

/**
 * Id that finds a choice by its tokens and log-probabilities, for clients that keep no other. Does not find
 * equal choices that were drawn in different ways.
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
