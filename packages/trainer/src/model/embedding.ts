/** embedding [V, H] → into [T, H] */
export function embedTokens(tokenIds: Int32Array, embedding: Float32Array, into: Float32Array): void {
  const columns = into.length / tokenIds.length;
  tokenIds.forEach((id, token) => into.set(embedding.subarray(id * columns, (id + 1) * columns), token * columns));
}

/** dy [T, H] = Σ over trained tokens i of lossGradient[i] · direction[i], added to the row of i's source. */
export function scatterDirections(
  sources: Int32Array,
  direction: Float32Array,
  lossGradient: Float32Array,
  dy: Float32Array,
): void {
  const columns = direction.length / sources.length;
  dy.fill(0);
  sources.forEach((source, i) => {
    const weight = lossGradient[i]!;
    for (let j = 0; j < columns; j++) dy[source * columns + j]! += weight * direction[i * columns + j]!;
  });
}
