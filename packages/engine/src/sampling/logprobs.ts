import { EngineError, TokenDescriptions } from '@trainyard/backend';
import type { TokenDescription, TokenLogprob, TokenTexts, TopLogprob } from '@trainyard/backend';
import { mostLikelyTokens } from './sampler.ts';
import type { SamplerBuffers } from './sampler.ts';
import { logSumExp, scanMaxima, scanSums } from '@trainyard/decoder';

/** API value for -Infinity and anything lower. */
const LOGPROB_FLOOR = -9999;

/** Caches each token's bytes and text. */
export class LogprobWriter {
  readonly #descriptions: TokenDescriptions;

  /** @param vocabulary null: tokens are ids with empty bytes and text */
  constructor(vocabulary: TokenTexts | null) {
    this.#descriptions = new TokenDescriptions(vocabulary);
  }

  /**
   * @param row logits, `[V]`, scanned, with the log Σ exp `logSum`
   * @param sampled `top`: number of `top` entries: the sampled token, then the most likely others (0 = none, -1 = the whole
   * vocabulary); or a list of ids that follow it, each once
   */
  entry(
    row: Float32Array,
    { token, logSum, top }: { token: number; logSum: number; top: number | readonly number[] },
    buffers: SamplerBuffers,
  ): TokenLogprob {
    const count = top === -1 ? row.length : typeof top === 'number' ? top : Infinity;
    const others = typeof top === 'number' ? mostLikelyTokens(row, count, buffers) : [...new Set(top)];
    return this.entryOf(
      { id: token, logprob: row[token]! - logSum },
      others.map((id) => ({ id, logprob: row[id]! - logSum })),
      count,
    );
  }

  /** @param ranked the most likely tokens of the row, in order @param numTop number of `top` entries */
  entryOf(sampled: IdLogprob, ranked: readonly IdLogprob[], numTop: number): TokenLogprob {
    const first = this.describe(sampled);
    const top: TopLogprob[] = numTop > 0 ? [{ ...first }] : [];
    for (const other of ranked) {
      if (top.length >= numTop) break;
      if (other.id !== sampled.id) top.push(this.describe(other));
    }
    return { ...first, top };
  }

  describe({ id, logprob }: IdLogprob): TopLogprob {
    return { ...this.descriptionOf(id), logprob: Math.max(logprob, LOGPROB_FLOOR) };
  }

  descriptionOf(id: number): TokenDescription {
    return this.#descriptions.of(id);
  }
}

export interface IdLogprob {
  readonly id: number;
  readonly logprob: number;
}

/** Omits masked tokens. @throws {EngineError} engine.internal if the logits are not numbers */
export function rankTokens(row: Float32Array, count: number, buffers: SamplerBuffers): IdLogprob[] {
  const logSum = scanLogSumExp(row, buffers);
  return mostLikelyTokens(row, count, buffers)
    .filter((id) => row[id]! > -Infinity)
    .map((id) => ({ id, logprob: row[id]! - logSum }));
}

/** @throws {EngineError} engine.internal if the logits are not numbers */
export function scanLogSumExp(row: Float32Array, { scan }: SamplerBuffers): number {
  scanMaxima(row, scan);
  scanSums(scan, 1);
  return finiteLogSum(logSumExp(scan));
}

/** @throws {EngineError} engine.internal if the logits are not numbers */
export function finiteLogSum(logSum: number): number {
  if (Number.isFinite(logSum)) return logSum;
  throw new EngineError('engine.internal', 'no token can be sampled: the logits are not numbers');
}
