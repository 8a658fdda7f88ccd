import { type Architecture, convolutionParts, convolve, hasConvolution, sharedFloats } from '@trainyard/transformer';
import { PAGE_TOKENS } from '../attention/page-format.ts';
import type { PageCopy, PageTables } from '../attention/page-tables.ts';

/** Columns of a batch. */
export interface RowPlaces {
  readonly sequences: Int32Array;
  readonly positions: Int32Array;
}

/**
 * Inputs u of the convolutions of all sequences, by token, in the pages of keys and values: a sequence can then continue
 * from any of its tokens, and share its first ones, like with attention. Only the last `size` are read.
 *
 * Shared memory, reserved at once and committed when touched: `4 · layers with a convolution · H` bytes per token.
 */
export class ConvolutionInputs {
  readonly #tables: PageTables;
  readonly #size: number;
  readonly #width: number;
  /** u [cells, H] by layer; null: the layer has attention. */
  readonly #layers: readonly (Float32Array | null)[];
  /** Cell of each of the last tokens up to a row's own; -1 before the first. */
  readonly #cells: Int32Array;
  readonly #sum: Float64Array;

  constructor(architecture: Architecture, tables: PageTables, numCells: number) {
    const { convolution, hiddenSize, numLayers } = architecture;
    this.#tables = tables;
    this.#size = convolution?.size ?? 0;
    this.#width = hiddenSize;
    this.#layers = Array.from({ length: numLayers }, (_, layer) =>
      hasConvolution(architecture, layer) ? sharedFloats(numCells * hiddenSize) : null,
    );
    this.#cells = new Int32Array(this.#size);
    this.#sum = new Float64Array(hiddenSize);
  }

  copyPage({ from, to, numTokens }: PageCopy): void {
    const pageFloats = PAGE_TOKENS * this.#width;
    for (const inputs of this.#layers)
      inputs?.copyWithin(to * pageFloats, from * pageFloats, from * pageFloats + numTokens * this.#width);
  }

  /** Writes u = b ∘ x of all rows. @param bcx [rows, 3H] */
  write(layer: number, bcx: Float32Array, { sequences, positions }: RowPlaces): void {
    const inputs = this.#layers[layer]!;
    const width = this.#width;
    const { b, x } = convolutionParts(width);
    for (let row = 0; row < positions.length; row++) {
      const to = this.#cellOf(sequences[row]!, positions[row]!) * width;
      const from = 3 * row * width;
      for (let i = 0; i < width; i++) inputs[to + i] = bcx[from + b + i]! * bcx[from + x + i]!;
    }
  }

  /** Computes o = c ∘ Σ w ∘ u of all rows, whose u were written. @param weights [size, H] @param o [rows, H], written */
  convolve(
    layer: number,
    weights: Float32Array,
    { bcx, o }: Readonly<Record<'bcx' | 'o', Float32Array>>,
    { sequences, positions }: RowPlaces,
  ): void {
    const width = this.#width;
    const { c } = convolutionParts(width);
    for (let row = 0; row < positions.length; row++) {
      for (let j = 0; j < this.#size; j++) {
        const position = positions[row]! - (this.#size - 1 - j);
        this.#cells[j] = position < 0 ? -1 : this.#cellOf(sequences[row]!, position);
      }
      convolve(weights, this.#layers[layer]!, this.#cells, this.#sum);
      const [to, from] = [row * width, 3 * row * width + c];
      for (let i = 0; i < width; i++) o[to + i] = bcx[from + i]! * this.#sum[i]!;
    }
  }

  #cellOf(sequence: number, position: number): number {
    const page = this.#tables.pagesOf(sequence)[Math.floor(position / PAGE_TOKENS)]!;
    return page * PAGE_TOKENS + (position % PAGE_TOKENS);
  }
}
