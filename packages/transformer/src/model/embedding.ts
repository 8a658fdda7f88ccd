import { readValues, type StoredValues, type TensorPlace } from '@trainyard/native';

/** Rows of a matrix [rows, columns]: in memory, as values or as stored in a model file, or in their file. */
export class MatrixRows {
  readonly columns: number;
  readonly #matrix: Float32Array | StoredValues | TensorPlace;

  constructor(matrix: Float32Array | StoredValues | TensorPlace, columns: number) {
    this.#matrix = matrix;
    this.columns = columns;
  }

  /**
   * @param memory for rows that are not in memory as values. Default: fresh
   * @returns [end - start, columns], to be read only
   */
  rows(start: number, end: number, memory: (length: number) => Float32Array = fresh): Float32Array {
    const [from, to] = [start * this.columns, end * this.columns];
    if (this.#matrix instanceof Float32Array) return this.#matrix.subarray(from, to);
    const rows = memory(to - from);
    readValues(this.#matrix, from, rows);
    return rows;
  }

  row(id: number): Float32Array {
    return this.rows(id, id + 1);
  }
}

const fresh = (length: number) => new Float32Array(length);

/** Copies rows of the embedding [V, H], times `scale`, → into [T, H]. */
export function embedTokens(tokenIds: Int32Array, embedding: MatrixRows, into: Float32Array, scale: number): void {
  const { columns } = embedding;
  const memory = new Float32Array(new ArrayBuffer(4 * columns));
  tokenIds.forEach((id, token) =>
    into.set(
      embedding.rows(id, id + 1, () => memory),
      token * columns,
    ),
  );
  if (scale !== 1) for (let i = 0; i < into.length; i++) into[i]! *= scale;
}
