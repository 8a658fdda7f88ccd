import { createRequire } from 'node:module';
import type { Tensor as OrtTensor } from 'onnxruntime-common';
import type { InferenceSession } from 'onnxruntime-node';
import type { CompiledGraph, ProductSize } from './compile.ts';
import { compileGraph } from './compile.ts';
import type { Value } from './graph.ts';
import type { Dim } from './onnx-writer.ts';

/**
 * The class that ONNX Runtime's own CommonJS code knows: results handed in as tensors of the ES module's class would be ignored.
 * This package is JavaScript alone, unlike `onnxruntime-node`.
 */
const { Tensor } = createRequire(import.meta.url)('onnxruntime-common') as typeof import('onnxruntime-common');

export interface SessionOptions {
  /** Threads of one graph run, the calling one included. */
  readonly numThreads: number;
  /** @see compileGraph */
  readonly savedAsInputs?: boolean;
}

/** Tensors by name. */
export type Tensors = Readonly<Record<string, OrtTensor>>;

/** A compiled graph, ready to run on the processor. Run-time sizes may differ from run to run. */
export class GraphSession {
  readonly inputNames: readonly string[];
  readonly #session: InferenceSession;
  readonly #products: readonly ProductSize[];
  /** Where each run-time size can be read off: input and axis. */
  readonly #sizes: ReadonlyMap<string, readonly [input: string, axis: number]>;

  private constructor(session: InferenceSession, graph: CompiledGraph) {
    this.#session = session;
    this.#products = graph.products;
    this.inputNames = graph.inputs.map(({ name }) => name);
    this.#sizes = new Map(
      graph.inputs.flatMap(({ name, shape }) =>
        shape.flatMap((dim, axis) => (typeof dim === 'string' ? [[dim, [name, axis] as const] as const] : [])),
      ),
    );
  }

  static async create(outputs: Readonly<Record<string, Value>>, options: SessionOptions): Promise<GraphSession> {
    const graph = compileGraph(outputs, { savedAsInputs: options.savedAsInputs ?? false });
    // Loaded when the first graph is: whoever only reads a configuration with this package stays free of native code.
    const runtime = await import('onnxruntime-node');
    const session = await runtime.InferenceSession.create(graph.bytes, {
      intraOpNumThreads: options.numThreads,
      interOpNumThreads: 1,
      executionMode: 'sequential',
      graphOptimizationLevel: 'all',
      logSeverityLevel: 3,
      // Each session has its own threads; those of the last one would spin on a core that the next one needs. Measured with two
      // threads on two cores, forward and backward of 896 tokens: 4.3 s, and 8.2 s with spinning.
      extra: { session: { intra_op: { allow_spinning: '0' } } },
    });
    return new GraphSession(session, graph);
  }

  /**
   * @param feeds May hold more than the graph needs. Buffers are read in place, not copied.
   * @param results Tensors to write outputs into; outputs not named here are allocated.
   */
  async run(feeds: Tensors, results: Tensors = {}): Promise<Record<string, OrtTensor>> {
    const needed: Record<string, OrtTensor> = {};
    for (const name of this.inputNames) {
      const tensor = feeds[name];
      if (tensor === undefined) throw new Error(`graph input ${name} was not fed`);
      needed[name] = tensor;
    }
    const fetches: Record<string, OrtTensor | null> = {};
    for (const name of this.#session.outputNames) fetches[name] = results[name] ?? null;
    return await this.#session.run(needed, fetches);
  }

  /** Floating-point operations in the matrix products of a run with these feeds. */
  flops(feeds: Tensors): number {
    const size = (dim: Dim): number => {
      if (typeof dim === 'number') return dim;
      const [, multiple = '', name = ''] = /^(\d*)(.+)$/.exec(dim)!;
      const [input, axis] = this.#sizes.get(name)!;
      return Number(multiple || 1) * feeds[input]!.dims[axis]!;
    };
    const product = ({ batch, m, k, n }: ProductSize) =>
      [...batch, m, k, n].reduce<number>((p, dim) => p * size(dim), 2);
    return this.#products.reduce((sum, one) => sum + product(one), 0);
  }

  async close(): Promise<void> {
    await this.#session.release();
  }
}

/** A float32 tensor over `data`, which stays shared. */
export const float32 = (data: Float32Array, dims: readonly number[]): OrtTensor => new Tensor('float32', data, dims);

/** An int64 tensor holding a copy of `values`. */
export const int64 = (values: Int32Array, dims: readonly number[]): OrtTensor =>
  new Tensor('int64', BigInt64Array.from(values, BigInt), dims);

/** @throws {TypeError} for a tensor of another type */
export function floats(tensor: OrtTensor): Float32Array {
  if (!(tensor.data instanceof Float32Array)) throw new TypeError(`expected a float32 result, got ${tensor.type}`);
  return tensor.data;
}
