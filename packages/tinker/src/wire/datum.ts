/** Values of a loss, one per position: whole numbers are sent as int64, others as float32. */
export type LossInput = Int32Array | Float32Array;

/** One sequence of T tokens and the predicted token after each. */
export interface Datum {
  /** [T] */
  readonly tokens: Int32Array;
  /** With the protocol's names: `target_tokens`, `weights`, `logprobs`, `advantages`; each [T]. */
  readonly inputs: Readonly<Record<string, LossInput>>;
}

/** One pass over datums of one model. */
export interface PassRequest {
  readonly modelId: string;
  /** Number of the request among those of its model, from 1. */
  readonly seqId: number;
  readonly datums: readonly Datum[];
  readonly lossName: LossName;
  /** Only log-probabilities: no gradient accumulates. */
  readonly isForwardOnly: boolean;
}

export type LossName = 'cross_entropy' | 'importance_sampling';

export interface PassResult {
  /** Natural-log probabilities of each datum's targets, in the order of the request, [T] or fewer. */
  readonly logprobs: readonly Float32Array[];
  readonly metrics: Readonly<Record<string, number>>;
}

/** Approximate bytes of a datum on the wire: tokens and tensors. */
export function datumBytes({ tokens, inputs }: Datum): number {
  return Object.values(inputs).reduce(
    (bytes, input) => bytes + input.length * (input instanceof Float32Array ? 4 : 8),
    4 * tokens.length,
  );
}
