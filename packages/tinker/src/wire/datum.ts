/** One per position: whole numbers are sent as int64, others as float32. */
export type LossInput = Int32Array | Float32Array;

/** T tokens and the predicted token after each. */
export interface Datum {
  /** [T] */
  readonly tokens: Int32Array;
  /** Names of the protocol: `target_tokens`, `weights`, `logprobs`, `advantages`; each [T]. */
  readonly inputs: Readonly<Record<string, LossInput>>;
}

export interface PassRequest {
  readonly modelId: string;
  /** Request's number among those of its model, from 1. */
  readonly seqId: number;
  readonly datums: readonly Datum[];
  readonly lossName: LossName;
  /** Only log-probabilities: no gradient accumulates. */
  readonly isForwardOnly: boolean;
}

export type LossName = 'cross_entropy' | 'importance_sampling';

export interface PassResult {
  /** Natural-log probabilities of each datum's targets, [T] or fewer. */
  readonly logprobs: readonly Float32Array[];
  readonly metrics: Readonly<Record<string, number>>;
}

/** Approximate bytes on the wire. */
export function datumBytes({ tokens, inputs }: Datum): number {
  return Object.values(inputs).reduce(
    (bytes, input) => bytes + input.length * (input instanceof Float32Array ? 4 : 8),
    4 * tokens.length,
  );
}
