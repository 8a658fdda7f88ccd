/** Arrays of one length that are used again. */
export class StatePool {
  readonly #length: number;
  readonly #free: Float32Array[] = [];

  constructor(length: number) {
    this.#length = length;
  }

  /** Contents are those of the last use. */
  take(): Float32Array {
    return this.#free.pop() ?? new Float32Array(this.#length);
  }

  give(state: Float32Array): void {
    this.#free.push(state);
  }
}

/**
 * Number of children of each token that do not follow it in the same chunk: they start from a state that was kept.
 *
 * @param parents [T] of a depth-first row @param chunkTokens tokens of a chunk, counted from the start of the row
 */
export function laterChildren(parents: Int32Array, chunkTokens: number): Int32Array {
  const counts = new Int32Array(parents.length);
  for (let token = 0; token < parents.length; token++) {
    const parent = parents[token]!;
    if (parent >= 0 && (parent !== token - 1 || token % chunkTokens === 0)) counts[parent]!++;
  }
  return counts;
}
