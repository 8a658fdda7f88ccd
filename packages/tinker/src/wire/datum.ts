/** Values of a loss, one for each position: whole numbers go as int64, others as float32. */
export type LossInput = Int32Array | Float32Array;

/** One sequence of T tokens and, for each, what is predicted behind it. */
export interface Datum {
  /** [T] */
  readonly tokens: Int32Array;
  /** By the protocol's names: `target_tokens`, `weights`, `logprobs`, `advantages`; each [T]. */
  readonly inputs: Readonly<Record<string, LossInput>>;
}

/** One pass over datums of one model. */
export interface PassRequest {
  readonly modelId: string;
  /** Number of the request among those of its model, from 1. */
  readonly seqId: number;
  readonly datums: readonly Datum[];
  readonly lossName: LossName;
  /** Log-probabilities alone: no gradient gathers. */
  readonly isForwardOnly: boolean;
}

export type LossName = 'cross_entropy' | 'importance_sampling';

export interface PassResult {
  /** For each datum, in the order of the request: natural-log probabilities of its targets, [T] or fewer. */
  readonly logprobs: readonly Float32Array[];
  readonly metrics: Readonly<Record<string, number>>;
}

/** Bytes that a datum takes on the wire, nearly: tokens and tensors. */
export function datumBytes({ tokens, inputs }: Datum): number {
  return Object.values(inputs).reduce(
    (bytes, input) => bytes + input.length * (input instanceof Float32Array ? 4 : 8),
    4 * tokens.length,
  );
}
