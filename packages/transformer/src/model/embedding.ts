/** Copies rows of embedding [V, H] → into [T, H]. */
export function embedTokens(tokenIds: Int32Array, embedding: Float32Array, into: Float32Array): void {
  const columns = into.length / tokenIds.length;
  tokenIds.forEach((id, token) => into.set(embedding.subarray(id * columns, (id + 1) * columns), token * columns));
}
