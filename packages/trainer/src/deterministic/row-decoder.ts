import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { DecoderBatch, PagedDecoder } from '@trainyard/decoder';
import type { DecoderAdapter, DecoderWeights } from '@trainyard/decoder';
import { expertsIn } from '@trainyard/transformer';
import { ComputeTurns } from '../model/compute-turns.ts';
import type { ComputeOptions, PackedRow } from '../model/policy-model.ts';
import { DrawnRows } from './drawn-rows.ts';
import type { RowChain } from './row-chains.ts';
import { rowChains } from './row-chains.ts';

/**
 * About 0.3 s of the default model: the cores can change hands between two batches. Logits of as many rows are
 * held.
 */
const BATCH_TOKENS = 128;

export interface DecodedRow {
  /** [N] natural-log probabilities, as the sampler would report them. */
  readonly logprobs: Float32Array;
  /** [T, K] by layer, as the sampler chose them; null for dense layers, -1 for tokens without logits in the last layer. */
  readonly experts: readonly (Int32Array | null)[];
}

interface RowProgress {
  readonly row: PackedRow;
  readonly chains: readonly RowChain[];
  /** Computed tokens of each chain. */
  readonly numComputed: Int32Array;
  /** Indices of the trained tokens that a token predicts. */
  readonly trainedAt: ReadonlyMap<number, readonly number[]>;
  /** Tokens after which other chains start. */
  readonly forks: ReadonlySet<number>;
}

/**
 * Computes rows with the sampler's code: token by token, over pages of keys and values. One serves all policies
 * of a base model: native code keeps memory for each ended thread.
 */
export class RowDecoder {
  readonly #weights: DecoderWeights;
  readonly #numThreads: number;
  readonly #batch = new DecoderBatch<DecoderAdapter>(BATCH_TOKENS);
  readonly #drawn: DrawnRows;
  #decoder: PagedDecoder | null = null;

  /** @param weights of the base model, closed with this object */
  constructor(weights: DecoderWeights, numThreads: number) {
    this.#weights = weights;
    this.#numThreads = numThreads;
    this.#drawn = new DrawnRows(weights.parts.architecture.vocabSize);
  }

  /**
   * Computes a row as the sampler did.
   *
   * @param adapter null: the base model
   * @throws {TrainerError} `trainer.cancelled`
   */
  async compute(row: PackedRow, adapter: DecoderAdapter | null, options: ComputeOptions): Promise<DecodedRow> {
    const logprobs = new Float32Array(row.targets.length);
    const experts = this.#noExperts(row.tokenIds.length);
    if (logprobs.length === 0) return { logprobs, experts };
    const chains = rowChains(row);
    const decoder = this.#decoderOf(row.tokenIds.length, chains);
    const numComputed = new Int32Array(chains.length);
    const trainedAt = Map.groupBy(row.sources.keys(), (i) => row.sources[i]!);
    const forks = new Set(chains.filter(({ parent }) => parent >= 0).map(({ start }) => row.parents[start]!));
    const progress = { row, chains, numComputed, trainedAt, forks };
    const turns = new ComputeTurns(options);
    await turns.begin();
    try {
      for (let numLeft = row.tokenIds.length; numLeft > 0;) {
        await nextTurn();
        if (turns.isOver) {
          turns.finish();
          await turns.begin();
        }
        turns.throwIfCancelled();
        const tokens = this.#fill(progress, decoder, adapter);
        numLeft -= tokens.length;
        decoder.observeExperts((layer, chosen) => {
          const into = experts[layer]!;
          const used = this.#weights.parts.architecture.experts!.used;
          // The last layer may be computed only for tokens that predict a trained one.
          const own = chosen.length === used * tokens.length ? tokens : tokens.filter((token) => trainedAt.has(token));
          for (const [i, token] of own.entries()) into.set(chosen.subarray(i * used, (i + 1) * used), token * used);
        });
        const logits = decoder.run(this.#batch);
        let index = 0;
        for (const token of tokens) {
          const trained = trainedAt.get(token);
          if (trained === undefined) continue;
          const values = logits.row(index++);
          for (const i of trained) logprobs[i] = this.#drawn.logprob(values, row.targets[i]!, row.replay ?? null, i);
        }
      }
    } finally {
      turns.finish();
      decoder.observeExperts(null);
      for (const sequence of chains.keys()) decoder.forget(sequence, 0);
    }
    return { logprobs, experts };
  }

  #noExperts(numTokens: number): (Int32Array | null)[] {
    const { architecture } = this.#weights.parts;
    return Array.from({ length: architecture.numLayers }, (_, layer) => {
      const experts = expertsIn(architecture, layer);
      return experts === null ? null : new Int32Array(numTokens * experts.used).fill(-1);
    });
  }

  close(): void {
    this.#decoder?.close();
    this.#decoder = null;
    this.#weights.close();
  }

  /** Takes tokens of chains whose earlier tokens are computed. @returns their row indices */
  #fill(
    { row, chains, numComputed, trainedAt, forks }: RowProgress,
    decoder: PagedDecoder,
    adapter: DecoderAdapter | null,
  ): number[] {
    const batch = this.#batch;
    batch.clear();
    const tokens: number[] = [];
    // Tokens of this batch are visible to others from the next batch on.
    const before = numComputed.slice();
    for (const [index, { start, end, parent, depth }] of chains.entries()) {
      const first = start + numComputed[index]!;
      if (first === end) continue;
      if (first === start && parent >= 0) {
        if (chains[parent]!.depth + before[parent]! < depth) continue;
        decoder.share(parent, index, depth);
      }
      const last = Math.min(end, first + BATCH_TOKENS - batch.length);
      for (let token = first; token < last; token++) {
        batch.add(
          {
            token: row.tokenIds[token]!,
            position: row.positions[token]!,
            sequence: index,
            wantsLogits: trainedAt.has(token),
            keepsState: forks.has(token),
          },
          adapter,
        );
        tokens.push(token);
      }
      numComputed[index]! += last - first;
      if (batch.length === BATCH_TOKENS) break;
    }
    assert(tokens.length > 0, 'a chain waits for itself');
    return tokens;
  }

  /**
   * Returns the kept decoder if the row fits, else one with room for longer rows too: threads end with the old
   * one. Untouched memory is not committed.
   */
  #decoderOf(numTokens: number, chains: readonly RowChain[]): PagedDecoder {
    const kept = this.#decoder;
    const maxSequences = chains.length;
    if (kept !== null && kept.capacityTokens >= numTokens && kept.maxSequences >= maxSequences) return kept;
    kept?.close();
    this.#decoder = null;
    const capacityTokens = powerOfTwo(Math.max(numTokens, kept?.capacityTokens ?? 0));
    this.#decoder = new PagedDecoder(this.#weights, {
      capacityTokens,
      contextLength: capacityTokens,
      maxSequences: powerOfTwo(Math.max(maxSequences, kept?.maxSequences ?? 0)),
      batchTokens: BATCH_TOKENS,
      numThreads: this.#numThreads,
    });
    return this.#decoder;
  }
}

const powerOfTwo = (atLeast: number): number => 2 ** Math.ceil(Math.log2(atLeast));
