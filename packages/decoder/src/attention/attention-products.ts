import type { OnnxTensor } from '@trainyard/native';
import { input, matmul } from '@trainyard/transformer';
import { ConstantGraph } from '../graphs/constant-graph.ts';

interface Graphs {
  readonly scores: ConstantGraph;
  readonly sums: ConstantGraph;
}

/** The two products of attention by ONNX Runtime, for one thread. Memory is float32 and must not move. */
export class AttentionProducts {
  readonly #headSize: number;
  #graphs: Graphs | null = null;

  /** @param headSize D */
  constructor(headSize: number) {
    this.#headSize = headSize;
  }

  /** @param queries [M, D] @param keys [N, D] @param scores [M, N], written */
  score(queries: Float32Array, keys: Float32Array, scores: Float32Array): void {
    const feeds = { queries: this.#rows(queries), keys: this.#rows(keys) };
    this.#opened().scores.run(feeds, { scores: this.#pairs(scores, queries, keys) });
  }

  /** @param scores [M, N] @param values [N, D] @param sums [M, D], written */
  sum(scores: Float32Array, values: Float32Array, sums: Float32Array): void {
    const feeds = { scores: this.#pairs(scores, sums, values), values: this.#rows(values) };
    this.#opened().sums.run(feeds, { sums: this.#rows(sums) });
  }

  close(): void {
    this.#graphs?.scores.close();
    this.#graphs?.sums.close();
    this.#graphs = null;
  }

  #opened(): Graphs {
    const matrix = (name: string, rows: string) => input(name, [rows, this.#headSize]);
    this.#graphs ??= {
      scores: graphOf({ scores: matmul(matrix('queries', 'M'), matrix('keys', 'N'), { transposeB: true }) }),
      sums: graphOf({ sums: matmul(input('scores', ['M', 'N']), matrix('values', 'N')) }),
    };
    return this.#graphs;
  }

  /** [rows, D] */
  #rows(data: Float32Array): OnnxTensor {
    return { data, dims: [data.length / this.#headSize, this.#headSize] };
  }

  /** [rows of one, rows of the other] */
  #pairs(data: Float32Array, one: Float32Array, other: Float32Array): OnnxTensor {
    return { data, dims: [one.length / this.#headSize, other.length / this.#headSize] };
  }
}

const graphOf = (outputs: ConstructorParameters<typeof ConstantGraph>[0]): ConstantGraph =>
  new ConstantGraph(outputs, {}, 1);
