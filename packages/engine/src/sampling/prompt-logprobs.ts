import type { PromptLogprob, PromptLogprobs } from '@trainyard/backend';
import { scanLogSumExp } from './logprobs.ts';
import type { LogprobWriter } from './logprobs.ts';
import { mostLikelyTokens } from './sampler.ts';
import type { SamplerBuffers } from './sampler.ts';
import { countAtLeast } from '@trainyard/decoder';

/**
 * Scores a request's prompt while its first choice computes it. Scores survive preemption, so each row is read
 * once.
 */
export class PromptScorer {
  readonly #promptIds: readonly number[];
  readonly #numTop: number;
  readonly #entries: PromptLogprobs = [null];

  /** @param numTop entries in addition to the actual token; -1 = the whole vocabulary */
  constructor(promptIds: readonly number[], numTop: number) {
    this.#promptIds = promptIds;
    this.#numTop = numTop;
  }

  /** Number of positions read; also the position of the next row. */
  get numScored(): number {
    return this.#entries.length - 1;
  }
  get entries(): PromptLogprobs {
    return this.#entries;
  }
  get isComplete(): boolean {
    return this.#entries.length === this.#promptIds.length;
  }

  /**
   * Reads the raw logits after the first `numScored + 1` prompt tokens.
   *
   * @throws {EngineError} engine.internal if they are not numbers
   */
  score(row: Float32Array, writer: LogprobWriter, buffers: SamplerBuffers): void {
    const { scan } = buffers;
    const logSum = scanLogSumExp(row, buffers);
    const actual = this.#promptIds[this.#entries.length]!;
    const describe = (id: number, rank: number): PromptLogprob => ({
      ...writer.describe({ id, logprob: row[id]! - logSum }),
      rank,
    });
    const top = mostLikelyTokens(row, this.#numTop === -1 ? row.length : this.#numTop, buffers);
    const entry = [describe(actual, countAtLeast(row, scan, row[actual]!))];
    for (const [i, id] of top.entries()) if (id !== actual) entry.push(describe(id, i + 1));
    this.#entries.push(entry);
  }
}
