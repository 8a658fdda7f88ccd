import type { Tokenizer } from '@trainyard/tokenizer';
import { TrainerError } from '../contract/errors.ts';
import type { PackedRow } from '../model/policy-model.ts';
import { PARITY_TEXT } from './parity-text.ts';

export interface ParityReport {
  /** Compared tokens. */
  readonly numTokens: number;
  /** Mean and maximum |Δlogprob|, nats. */
  readonly meanDifference: number;
  readonly maxDifference: number;
  /** Runtime of the exported files; `trainer`: its own graphs on the files read back. */
  readonly computedBy: 'llama.cpp' | 'trainer';
  /** Mean |Δlogprob| between base model and checkpoint on the same tokens, as a scale. */
  readonly adapterEffect: number;
}

const NUM_TOKENS = 256;

// Rounding to halves, or to llama.cpp's key-value cache, gives some thousandths; a permuted head or a wrong
// scale more than one.
const MAX_MEAN_DIFFERENCE = 0.1;

/** 257 ids, the first only as context, equal for every export of a base model. */
export function parityTokens(tokenizer: Tokenizer): Int32Array {
  const text = tokenizer.encode(PARITY_TEXT);
  const start = tokenizer.bosTokenId === null ? [] : [tokenizer.bosTokenId];
  const ids = Int32Array.from([...start, ...text].slice(0, NUM_TOKENS + 1));
  if (ids.length > NUM_TOKENS) return ids;
  throw new TrainerError('trainer.internal', `the fixed text has only ${text.length} tokens in this vocabulary`);
}

/** Every token after the first is predicted. */
export function parityRow(tokenIds: Int32Array): PackedRow {
  const indices = Int32Array.from(tokenIds.keys());
  return {
    tokenIds,
    positions: indices,
    parents: indices.map((index) => index - 1),
    sources: indices.subarray(0, -1),
    targets: tokenIds.subarray(1),
  };
}

export function logprobDifference(first: ArrayLike<number>, second: ArrayLike<number>): { mean: number; max: number } {
  const differences = Array.from(first, (value, i) => Math.abs(value - second[i]!));
  return {
    mean: differences.reduce((sum, difference) => sum + difference, 0) / differences.length,
    max: differences.reduce((largest, difference) => Math.max(largest, difference), 0),
  };
}

/** @throws {TrainerError} `trainer.export_differs` */
export function parityReport(
  logprobs: { readonly trainer: Float32Array; readonly base: Float32Array; readonly exported: ArrayLike<number> },
  computedBy: ParityReport['computedBy'],
): ParityReport {
  const { mean, max } = logprobDifference(logprobs.trainer, logprobs.exported);
  // Written so that NaN fails too.
  if (!(mean <= MAX_MEAN_DIFFERENCE)) {
    throw new TrainerError(
      'trainer.export_differs',
      `the exported files give log-probabilities that differ from the trainer's by ${mean} on average, more than ${MAX_MEAN_DIFFERENCE}`,
    );
  }
  return {
    numTokens: logprobs.trainer.length,
    meanDifference: mean,
    maxDifference: max,
    computedBy,
    adapterEffect: logprobDifference(logprobs.trainer, logprobs.base).mean,
  };
}
