/** Gradients by the hidden state of a trained token's source, and of the loss by that quantity. */
export interface SourceGradient {
  /** [N, H] */
  readonly direction: Float32Array;
  /** [N] */
  readonly weights: Float32Array;
}

/** Writes dy [T, H] = Σ over trained tokens i of weights[i] · direction[i], added to the row of i's source. */
export function scatterDirections(sources: Int32Array, gradients: readonly SourceGradient[], dy: Float32Array): void {
  dy.fill(0);
  for (const { direction, weights } of gradients) {
    const columns = direction.length / sources.length;
    sources.forEach((source, i) => {
      const weight = weights[i]!;
      for (let j = 0; j < columns; j++) dy[source * columns + j]! += weight * direction[i * columns + j]!;
    });
  }
}
