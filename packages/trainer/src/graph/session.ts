import { createRequire } from 'node:module';
import type { Tensor as OrtTensor } from 'onnxruntime-common';
import type { InferenceSession } from 'onnxruntime-node';
import type { Value } from './graph.ts';
import { compileGraph } from './compile.ts';

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

  private constructor(session: InferenceSession, inputNames: readonly string[]) {
    this.#session = session;
    this.inputNames = inputNames;
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
      // A thread that spins between runs takes a core from sampling and from the other sessions' pools.
      extra: { session: { intra_op: { allow_spinning: '0' } } },
    });
    return new GraphSession(session, graph.inputNames);
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

  async close(): Promise<void> {
    await this.#session.release();
  }
}

/** A float32 tensor over `data`, which stays shared. */
export const float32 = (data: Float32Array, dims: readonly number[]): OrtTensor => new Tensor('float32', data, dims);

/** An int64 tensor holding a copy of `values`. */
export const int64 = (values: Int32Array, dims: readonly number[]): OrtTensor =>
  new Tensor('int64', BigInt64Array.from(values, BigInt), dims);
