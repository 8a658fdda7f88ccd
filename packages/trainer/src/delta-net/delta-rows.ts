import type { DeltaHead, Taps } from '@trainyard/transformer';
import { addTokenGradient, type KeptToken } from './delta-gradient.ts';
import { CHUNK_TOKENS, type DeltaScratch } from './delta-scratch.ts';
import { laterChildren } from './row-states.ts';

/** Products of a layer, and outputs, of all tokens of a row. */
export interface DeltaArrays {
  /** [T] row index of the token before each; negative: none. */
  readonly parents: Int32Array;
  /** [T, width] */
  readonly products: Float32Array;
}

/**
 * Gated delta net of one layer over a row, which is a tree of tokens: the state after a token is the start of all tokens
 * that continue it, and its gradient is the sum over them. A key head with its value heads is computed for all tokens.
 *
 * Backward keeps no states of forward: it computes them again, keeps those between chunks and at forks, and from these
 * all of one chunk at a time.
 */
export class DeltaRows {
  readonly #head: DeltaHead;
  readonly #stateFloats: number;
  readonly #scratch: DeltaScratch;

  /** @param scratch of the thread, for all its layers */
  constructor(head: DeltaHead, scratch: DeltaScratch) {
    this.#head = head;
    this.#scratch = scratch;
    this.#stateFloats = head.net.keySize * head.net.valueSize;
  }

  /** @param into [T, values]: the columns of the key head's value heads are written */
  forward(keyHead: number, row: DeltaArrays, into: Float32Array): void {
    const { values } = this.#head.sizes;
    this.#walk(keyHead, row, Infinity, (token, own) => {
      for (let i = 0; i < this.#head.groupSize; i++)
        this.#head.finish(i, own, into.subarray(token * values, (token + 1) * values));
    }).forEach((state) => this.#scratch.pool.give(state));
  }

  /**
   * @param dOutputs [T, values]
   * @param into gradients of products [T, width]: the columns of the key head and its value heads are written
   */
  backward(keyHead: number, row: DeltaArrays, dOutputs: Float32Array, into: Float32Array): void {
    const { parents } = row;
    const head = this.#head;
    const { width, values } = head.sizes;
    const kept = this.#walk(keyHead, row, CHUNK_TOKENS, () => {});
    this.#clear(keyHead, parents.length, into);
    /** Gradients of states from tokens that continue them. */
    const gradients = new Map<number, Float32Array>();
    for (
      let start = CHUNK_TOKENS * Math.floor((parents.length - 1) / CHUNK_TOKENS);
      start >= 0;
      start -= CHUNK_TOKENS
    ) {
      const end = Math.min(parents.length, start + CHUNK_TOKENS);
      const before = (token: number): Float32Array | null => {
        const parent = parents[token]!;
        if (parent < 0) return null;
        return parent >= start ? this.#scratch.chunk[parent - start]!.state : kept.get(parent)!;
      };
      for (let token = start; token < end; token++) {
        head.prepare(keyHead, this.#taps(row, token));
        this.#advance(before(token), this.#scratch.chunk[token - start]!.state);
        this.#remember(this.#scratch.chunk[token - start]!);
      }
      for (let token = end - 1; token >= start; token--) {
        const taps = this.#taps(row, token);
        head.prepare(keyHead, taps);
        const ofState = gradients.get(token) ?? this.#scratch.pool.take().fill(0);
        gradients.delete(token);
        const own = { products: taps.at(-1)!, kept: this.#scratch.chunk[token - start]!, before: before(token) };
        const dOutput = dOutputs.subarray(token * values, (token + 1) * values);
        const dProducts = into.subarray(token * width, (token + 1) * width);
        addTokenGradient(head, own, { dOutput, ofState }, { gradient: this.#scratch.gradient, dProducts });
        this.#addToTaps(row, token, into);
        this.#passOn(gradients, parents[token]!, ofState);
      }
    }
    for (const state of kept.values()) this.#scratch.pool.give(state);
  }

  /**
   * Advances over all tokens.
   *
   * @returns states after tokens that are continued in another chunk, or by more than the next token
   */
  #walk(
    keyHead: number,
    row: DeltaArrays,
    chunkTokens: number,
    visit: (token: number, own: Float32Array) => void,
  ): Map<number, Float32Array> {
    const { parents } = row;
    const left = laterChildren(parents, chunkTokens);
    const keepsAll = chunkTokens !== Infinity;
    const kept = new Map<number, Float32Array>();
    const running = this.#scratch.pool.take();
    for (let token = 0; token < parents.length; token++) {
      const taps = this.#taps(row, token);
      this.#head.prepare(keyHead, taps);
      const parent = parents[token]!;
      const from = parent < 0 ? null : parent === token - 1 ? running : kept.get(parent)!;
      this.#advance(from, running);
      visit(token, taps.at(-1)!);
      if (left[token]! > 0) {
        const state = this.#scratch.pool.take();
        state.set(running);
        kept.set(token, state);
      }
      const isDone = !keepsAll && parent >= 0 && parent !== token - 1 && --left[parent]! === 0;
      if (!isDone) continue;
      this.#scratch.pool.give(kept.get(parent)!);
      kept.delete(parent);
    }
    this.#scratch.pool.give(running);
    return kept;
  }

  #advance(from: Float32Array | null, to: Float32Array): void {
    for (let i = 0; i < this.#head.groupSize; i++) {
      const part = (state: Float32Array) => state.subarray(i * this.#stateFloats, (i + 1) * this.#stateFloats);
      this.#head.advance(i, from === null ? null : part(from), part(to));
    }
  }

  #remember(kept: KeptToken): void {
    this.#head.ofValues.forEach((numbers, i) => kept.ofValues[i]!.set(numbers));
  }

  #taps({ parents, products }: DeltaArrays, token: number): Taps {
    const { width } = this.#head.sizes;
    const taps: (Float32Array | null)[] = [];
    let at = token;
    for (let tap = 0; tap < this.#head.net.convolutionSize; tap++) {
      taps.unshift(at < 0 ? null : products.subarray(at * width, (at + 1) * width));
      if (at >= 0) at = parents[at]!;
    }
    return taps;
  }

  /** Adds the gradients of the convolution's sums to the inputs of its taps. */
  #addToTaps({ parents }: DeltaArrays, token: number, into: Float32Array): void {
    const head = this.#head;
    const { width, channels } = head.sizes;
    const { convolution } = head.vectors;
    const { q, k, v } = this.#scratch.gradient.sums;
    let at = token;
    for (let tap = head.net.convolutionSize - 1; tap >= 0 && at >= 0; tap--) {
      const add = (column: number, sums: Float64Array) => {
        const [to, weight] = [at * width + column, tap * channels + column];
        for (let i = 0; i < sums.length; i++) into[to + i]! += convolution[weight + i]! * sums[i]!;
      };
      add(head.column('q'), q);
      add(head.column('k'), k);
      v.forEach((sums, i) => add(head.column('v', i), sums));
      at = parents[at]!;
    }
  }

  /** Gradients of channels are sums over tokens; those of z, b and a are written once. */
  #clear(keyHead: number, numTokens: number, into: Float32Array): void {
    const head = this.#head;
    const { width } = head.sizes;
    const { keySize, valueSize } = head.net;
    head.select(keyHead);
    for (let token = 0; token < numTokens; token++) {
      const clear = (column: number, size: number) =>
        into.fill(0, token * width + column, token * width + column + size);
      clear(head.column('q'), keySize);
      clear(head.column('k'), keySize);
      for (let i = 0; i < head.groupSize; i++) clear(head.column('v', i), valueSize);
    }
  }

  /** Adds the gradient of the state before a token to that of its parent. */
  #passOn(gradients: Map<number, Float32Array>, parent: number, ofState: Float32Array): void {
    const sum = gradients.get(parent);
    if (parent >= 0 && sum === undefined) {
      gradients.set(parent, ofState);
      return;
    }
    if (sum !== undefined) for (let i = 0; i < sum.length; i++) sum[i]! += ofState[i]!;
    this.#scratch.pool.give(ofState);
  }
}
