/**
 * Gated short convolutions (LFM2, arXiv:2511.23404). One linear layer gives b, c and x of a token; with u = b ∘ x the
 * output is c ∘ Σ w[j] ∘ u[token j], over the last tokens of the sequence up to its own. Before its first token, u is 0.
 */
export interface Convolution {
  /** Tokens that an output depends on, its own included. */
  readonly size: number;
  /** Layers with a convolution instead of attention, ascending. */
  readonly layers: readonly number[];
}

/** LFM2 has 3. Gradients recurse over so many tokens. */
export const MAX_CONVOLUTION_SIZE = 64;

/** GGUF tensor of a block, [size, H] with the weight of the token itself last. */
export const CONVOLUTION_TENSOR = 'shortconv.conv.weight';

export const hasConvolution = ({ convolution }: { readonly convolution: Convolution | null }, layer: number): boolean =>
  convolution !== null && convolution.layers.includes(layer);

/** Parts of the output of the linear layer before a convolution, in columns of a row. */
export const convolutionParts = (width: number) => ({ b: 0, c: width, x: 2 * width });

/**
 * Σ w[j] ∘ u[j] of one token, in double precision: the one order of sums of sampler and trainer.
 *
 * @param weights [size, H] @param inputs u [rows, H] @param rows of `inputs` by j, the token's own last; -1: none
 * @param sum [H], written
 */
export function convolve(weights: Float32Array, inputs: Float32Array, rows: Int32Array, sum: Float64Array): void {
  const width = sum.length;
  sum.fill(0);
  for (let j = 0; j < rows.length; j++) {
    if (rows[j]! < 0) continue;
    const [weight, input] = [j * width, rows[j]! * width];
    for (let i = 0; i < width; i++) sum[i]! += weights[weight + i]! * inputs[input + i]!;
  }
}
