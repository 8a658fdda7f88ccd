import assert from 'node:assert/strict';
import { type Architecture, DeltaHead, type DeltaVectors, deltaSizes, type Taps } from '@trainyard/transformer';
import type { RowPlaces } from '../convolution/convolution-inputs.ts';

/** Tokens between two kept states of a sequence. */
export const STATE_INTERVAL = 512;

/** State of all layers after some tokens. */
interface KeptState {
  readonly position: number;
  readonly numbers: Float32Array;
  /** Only the last one of a sequence is kept: the start of other replies to a prompt. */
  readonly isOfPrompt: boolean;
}

/**
 * States of the gated delta nets of all sequences: the running one of each, and kept ones that other sequences can start
 * from, after each {@link STATE_INTERVAL} tokens and before the last token of a prompt. A state is the matrices of the
 * value heads, and the inputs of the convolution of the last tokens.
 *
 * Computed token by token on the calling thread, so the batches of a sequence do not change its bits. Shared kept states
 * are one memory; all of it is committed when touched.
 */
export class DeltaStates {
  readonly #layers: readonly number[];
  readonly #heads: readonly DeltaHead[];
  readonly #layerFloats: number;
  readonly #historyAt: number;
  readonly #channels: number;
  readonly #width: number;
  readonly #running: (Float32Array | null)[];
  readonly #kept: KeptState[][];
  readonly #lengths: Int32Array;
  /** True if the last token of a sequence wanted logits. */
  readonly #answers: Uint8Array;
  /** Rows after which, and before which, a state is kept. */
  #keepsAfter = new Uint8Array();
  #keepsBefore = new Uint8Array();

  /** @param vectors by layer; null: no gated delta net */
  constructor(architecture: Architecture, vectors: readonly (DeltaVectors | null)[], maxSequences: number) {
    const { deltaNet, rmsEpsilon } = architecture;
    this.#layers = deltaNet?.layers ?? [];
    this.#heads = this.#layers.map((layer) => new DeltaHead(deltaNet!, vectors[layer]!, rmsEpsilon));
    const sizes = deltaNet === null ? null : deltaSizes(deltaNet);
    this.#historyAt = sizes?.state ?? 0;
    this.#channels = sizes?.channels ?? 0;
    this.#width = sizes?.width ?? 0;
    this.#layerFloats = (sizes?.state ?? 0) + (sizes?.history ?? 0);
    this.#running = Array.from({ length: maxSequences }, () => null);
    this.#kept = Array.from({ length: maxSequences }, () => []);
    this.#lengths = new Int32Array(maxSequences);
    this.#answers = new Uint8Array(maxSequences);
  }

  get isEmpty(): boolean {
    return this.#layers.length === 0;
  }

  /** Bytes of the states of so many sequences with so many tokens together. */
  static bytesFor({ deltaNet }: Pick<Architecture, 'deltaNet'>, numTokens: number, maxSequences: number): number {
    if (deltaNet === null) return 0;
    const { state, history } = deltaSizes(deltaNet);
    const numStates = 2 * maxSequences + Math.floor(numTokens / STATE_INTERVAL);
    return 4 * deltaNet.layers.length * (state + history) * numStates;
  }

  /** Largest number of first tokens, at most `length`, with which another sequence can start. */
  shareableLength(sequence: number, length: number): number {
    if (this.isEmpty || length === this.#lengths[sequence]) return length;
    return this.#stateAt(sequence, length)?.position ?? 0;
  }

  /** @throws {AssertionError} unless `length` is shareable */
  share(from: number, to: number, length: number): void {
    if (this.isEmpty || length === 0) return;
    const start = length === this.#lengths[from] ? this.#running[from]! : this.#stateAt(from, length, true)!.numbers;
    this.#running[to] = Float32Array.from(start);
    this.#kept[to]!.push(...this.#kept[from]!.filter(({ position }) => position <= length));
    this.#lengths[to] = length;
    this.#answers[to] = 0;
  }

  /** @throws {AssertionError} unless no tokens or a shareable number of them stay */
  forget(sequence: number, fromPosition: number): void {
    if (this.isEmpty || fromPosition >= this.#lengths[sequence]!) return;
    if (fromPosition > 0) this.#running[sequence]!.set(this.#stateAt(sequence, fromPosition, true)!.numbers);
    else this.#running[sequence] = null;
    this.#kept[sequence] = this.#kept[sequence]!.filter(({ position }) => position <= fromPosition);
    this.#lengths[sequence] = fromPosition;
    this.#answers[sequence] = 0;
  }

  /** Before the layers of a batch. @param wantsLogits, keepsState by row */
  begin(
    { sequences, positions }: RowPlaces,
    { wantsLogits, keepsState }: Readonly<Record<'wantsLogits' | 'keepsState', Uint8Array>>,
  ): void {
    if (this.isEmpty) return;
    const numRows = positions.length;
    this.#keepsAfter = Uint8Array.from({ length: numRows }, (_, row) =>
      (positions[row]! + 1) % STATE_INTERVAL === 0 || keepsState[row] === 1 ? 1 : 0,
    );
    this.#keepsBefore = new Uint8Array(numRows);
    for (let row = 0; row < numRows; row++) {
      const sequence = sequences[row]!;
      const position = positions[row]!;
      assert.equal(position, this.#lengths[sequence], 'tokens of a sequence follow each other');
      if (position === 0) this.#running[sequence] = new Float32Array(this.#layers.length * this.#layerFloats);
      const startsReply = wantsLogits[row] === 1 && this.#answers[sequence] === 0 && position > 0;
      this.#answers[sequence] = wantsLogits[row]!;
      if (startsReply && this.#stateAt(sequence, position)?.position !== position) {
        this.#keepsBefore[row] = 1;
        const kept = this.#kept[sequence]!.filter(({ isOfPrompt }) => !isOfPrompt);
        this.#kept[sequence] = [...kept, this.#newState(position, true)];
      }
      this.#lengths[sequence] = position + 1;
      if (this.#keepsAfter[row] === 1) this.#kept[sequence]!.push(this.#newState(position + 1, false));
    }
  }

  /** Computes all rows of a layer. @param products [rows, width] @param into [rows, values], written; null: only states */
  advance(layer: number, products: Float32Array, into: Float32Array | null, { sequences, positions }: RowPlaces): void {
    const index = this.#layers.indexOf(layer);
    const head = this.#heads[index]!;
    const { numKeyHeads, convolutionSize, keySize, valueSize } = head.net;
    const { values } = head.sizes;
    const stateFloats = keySize * valueSize;
    for (let row = 0; row < positions.length; row++) {
      const sequence = sequences[row]!;
      const own = products.subarray(row * this.#width, (row + 1) * this.#width);
      if (this.#keepsBefore[row] === 1) this.#keep(index, sequence, positions[row]!);
      const state = this.#layerOf(this.#running[sequence]!, index);
      const history = state.subarray(this.#historyAt);
      const taps: Taps = [
        ...Array.from({ length: convolutionSize - 1 }, (_, tap) =>
          history.subarray(tap * this.#channels, (tap + 1) * this.#channels),
        ),
        own,
      ];
      for (let keyHead = 0; keyHead < numKeyHeads; keyHead++) {
        head.prepare(keyHead, taps);
        for (let i = 0; i < head.groupSize; i++) {
          const at = head.valueHead(i) * stateFloats;
          const matrix = state.subarray(at, at + stateFloats);
          head.advance(i, matrix, matrix);
          if (into !== null) head.finish(i, own, into.subarray(row * values, (row + 1) * values));
        }
      }
      history.copyWithin(0, this.#channels);
      if (convolutionSize > 1) history.set(own.subarray(0, this.#channels), history.length - this.#channels);
      if (this.#keepsAfter[row] === 1) this.#keep(index, sequence, positions[row]! + 1);
    }
  }

  #keep(index: number, sequence: number, position: number): void {
    const kept = this.#stateAt(sequence, position, true)!;
    this.#layerOf(kept.numbers, index).set(this.#layerOf(this.#running[sequence]!, index));
  }

  #layerOf(numbers: Float32Array, index: number): Float32Array {
    return numbers.subarray(index * this.#layerFloats, (index + 1) * this.#layerFloats);
  }

  #newState(position: number, isOfPrompt: boolean): KeptState {
    return { position, numbers: new Float32Array(this.#layers.length * this.#layerFloats), isOfPrompt };
  }

  /** Last state of at most so many tokens, or of exactly so many. */
  #stateAt(sequence: number, length: number, isExact = false): KeptState | undefined {
    const state = this.#kept[sequence]!.findLast(({ position }) => position <= length);
    if (isExact) assert.equal(state?.position, length, `no state after ${length} tokens of sequence ${sequence}`);
    return state;
  }
}
