import { OnnxSession } from '@trainyard/native';
import type { OnnxTensor } from '@trainyard/native';
import { compileGraph, input, matmul } from '@trainyard/transformer';
import type { Value } from '@trainyard/transformer';

/** The two products of attention, by ONNX Runtime, of one thread. Memory is float32 and stays where it is. */
export class AttentionProducts {
  readonly #headSize: number;
  /** From the first product on. */
  #sessions: { readonly scores: OnnxSession; readonly sums: OnnxSession } | null = null;

  /** @param headSize D */
  constructor(headSize: number) {
    this.#headSize = headSize;
  }

  /** @param queries [M, D] @param keys [N, D] @param scores [M, N], written */
  score(queries: Float32Array, keys: Float32Array, scores: Float32Array): void {
    const dims = this.#dims(queries, keys);
    this.#opened().scores.run([dims.first, dims.second], [{ data: scores, dims: dims.both }]);
  }

  /** @param scores [M, N] @param values [N, D] @param sums [M, D], written */
  sum(scores: Float32Array, values: Float32Array, sums: Float32Array): void {
    const { first, second, both } = this.#dims(sums, values);
    this.#opened().sums.run([{ data: scores, dims: both }, second], [first]);
  }

  close(): void {
    this.#sessions?.scores.close();
    this.#sessions?.sums.close();
    this.#sessions = null;
  }

  #opened(): { readonly scores: OnnxSession; readonly sums: OnnxSession } {
    const headSize = this.#headSize;
    this.#sessions ??= {
      scores: session(matmul(input('queries', ['M', headSize]), input('keys', ['N', headSize]), { transposeB: true })),
      sums: session(matmul(input('scores', ['M', 'N']), input('values', ['N', headSize]))),
    };
    return this.#sessions;
  }

  /** [M, D], [N, D] and their [M, N]. */
  #dims(first: Float32Array, second: Float32Array): { first: OnnxTensor; second: OnnxTensor; both: number[] } {
    const [m, n] = [first.length / this.#headSize, second.length / this.#headSize];
    return {
      first: { data: first, dims: [m, this.#headSize] },
      second: { data: second, dims: [n, this.#headSize] },
      both: [m, n],
    };
  }
}

function session(product: Value): OnnxSession {
  const { bytes, inputs, outputNames } = compileGraph({ product });
  const inputNames = inputs.map(({ name }) => name);
  return new OnnxSession(bytes, { numThreads: 1, inputNames, outputNames, sharesArena: true });
}
