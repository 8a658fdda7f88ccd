import type { OnnxTensor } from '@trainyard/native';
import { OnnxSession } from '@trainyard/native';
import type { ProductSize } from './compile.ts';
import { compileGraph } from './compile.ts';
import type { Shape, Value } from './graph.ts';
import type { Dim } from './onnx-writer.ts';

export interface SessionOptions {
  /** Threads per graph run, including the calling one. */
  readonly numThreads: number;
  /** @see compileGraph */
  readonly savedAsInputs?: boolean;
}

/** Graphs read and write it in place. */
export type Tensor = OnnxTensor;

export type Tensors = Readonly<Record<string, Tensor>>;

/** Run-time sizes may change between runs. */
export class GraphSession {
  readonly inputNames: readonly string[];
  readonly #session: OnnxSession;
  readonly #outputShapes: ReadonlyMap<string, Shape>;
  readonly #products: readonly ProductSize[];
  /** Source of each run-time size: input and axis. */
  readonly #sizes: ReadonlyMap<string, readonly [input: string, axis: number]>;

  constructor(outputs: Readonly<Record<string, Value>>, { numThreads, savedAsInputs = false }: SessionOptions) {
    const { bytes, inputs, outputNames, products } = compileGraph(outputs, { savedAsInputs });
    this.inputNames = inputs.map(({ name }) => name);
    this.#session = new OnnxSession(bytes, { numThreads, inputNames: this.inputNames, outputNames });
    this.#outputShapes = new Map(outputNames.map((name) => [name, outputs[name]!.shape]));
    this.#products = products;
    this.#sizes = new Map(
      inputs.flatMap(({ name, shape }) =>
        shape.flatMap((dim, axis) => (typeof dim === 'string' ? [[dim, [name, axis] as const] as const] : [])),
      ),
    );
  }

  /**
   * Blocks the thread until done.
   *
   * @param feeds may hold more than the graph needs
   * @param results tensors to write outputs into; other outputs get fresh memory
   */
  run(feeds: Tensors, results: Tensors = {}): Tensors {
    const inputs = this.inputNames.map((name) => {
      const tensor = feeds[name];
      if (tensor === undefined) throw new Error(`graph input ${name} was not fed`);
      return tensor;
    });
    const outputs: Record<string, Tensor> = {};
    for (const [name, shape] of this.#outputShapes) outputs[name] = results[name] ?? this.#fresh(shape, feeds);
    this.#session.run(inputs, Object.values(outputs));
    return outputs;
  }

  dimsOf(output: string, feeds: Tensors): readonly number[] {
    return this.#outputShapes.get(output)!.map((dim) => this.#size(dim, feeds));
  }

  #fresh(shape: Shape, feeds: Tensors): Tensor {
    const dims = shape.map((dim) => this.#size(dim, feeds));
    return float32(new Float32Array(dims.reduce((product, dim) => product * dim, 1)), dims);
  }

  flops(feeds: Tensors): number {
    const product = ({ batch, m, k, n }: ProductSize) =>
      [...batch, m, k, n].reduce<number>((p, dim) => p * this.#size(dim, feeds), 2);
    return this.#products.reduce((sum, one) => sum + product(one), 0);
  }

  #size(dim: Dim, feeds: Tensors): number {
    if (typeof dim === 'number') return dim;
    const [, multiple = '', name = ''] = /^(\d*)(.+)$/.exec(dim)!;
    const [input, axis] = this.#sizes.get(name)!;
    return Number(multiple || 1) * feeds[input]!.dims[axis]!;
  }

  close(): void {
    this.#session.close();
  }
}

export const float32 = (data: Float32Array, dims: readonly number[]): Tensor => ({ data, dims });

export const int64 = (values: Int32Array, dims: readonly number[]): Tensor => ({
  data: BigInt64Array.from(values, BigInt),
  dims,
});

/** @throws {TypeError} for a tensor of another type */
export function floats({ data }: Tensor): Float32Array {
  if (!(data instanceof Float32Array)) throw new TypeError('expected a float32 result');
  return data;
}
