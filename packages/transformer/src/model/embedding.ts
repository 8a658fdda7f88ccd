/** Copies rows of embedding [V, H], times `scale`, → into [T, H]. */
export function embedTokens(tokenIds: Int32Array, embedding: Float32Array, into: Float32Array, scale: number): void {
  const columns = into.length / tokenIds.length;
  tokenIds.forEach((id, token) => into.set(embedding.subarray(id * columns, (id + 1) * columns), token * columns));
  if (scale !== 1) for (let i = 0; i < into.length; i++) into[i]! *= scale;
}
