import { Scratch } from '../model/workspace.ts';
import { cutGraph } from './cut-graph.ts';
import type { GraphPart } from './cut-graph.ts';
import type { Value } from './graph.ts';
import { float32, floats, GraphSession } from './session.ts';
import type { SessionOptions, Tensor, Tensors } from './session.ts';

/** Products with matrices outside the graphs. */
export interface OutsideProducts {
  widthOf(matrix: string, isTransposed: boolean): number;
  /** Rows that are written if `numRows` are wanted. */
  computedRows(numRows: number): number;
  /** @param x [rows, in] @param into [rows, {@link widthOf}] with room for {@link computedRows} */
  multiply(matrix: string, isTransposed: boolean, x: Tensor, into: Float32Array): void;
}

/** Compiled parts and outside products alternate. */
export class CutSession {
  readonly #parts: readonly (GraphPart & { readonly session: GraphSession | null })[];
  readonly #outputNames: ReadonlySet<string>;
  readonly #scratch = new Scratch();
  #flops = 0;

  constructor(outputs: Readonly<Record<string, Value>>, options: SessionOptions) {
    this.#outputNames = new Set(Object.keys(outputs));
    this.#parts = cutGraph(outputs, options.savedAsInputs ?? false).map((part) => ({
      ...part,
      session: Object.keys(part.outputs).length === 0 ? null : new GraphSession(part.outputs, options),
    }));
  }

  /** Like `GraphSession.run`, but the next run overwrites outputs that are not among `results`. */
  run(feeds: Tensors, results: Tensors, outside: OutsideProducts): Tensors {
    this.#flops = 0;
    const values: Record<string, Tensor> = { ...feeds };
    for (const { session, outputs, products } of this.#parts) {
      if (session !== null) {
        const into: Record<string, Tensor> = {};
        for (const name of Object.keys(outputs)) into[name] = results[name] ?? this.#bufferOf(session, name, values);
        Object.assign(values, session.run(values, into));
        this.#flops += session.flops(values);
      }
      for (const { name, x, matrix, isTransposed } of products) {
        const from = values[x]!;
        const [numRows, width] = [from.dims[0]!, outside.widthOf(matrix, isTransposed)];
        const into = this.#scratch.take(name, outside.computedRows(numRows) * width);
        outside.multiply(matrix, isTransposed, from, into);
        this.#flops += 2 * floats(from).length * width;
        values[name] = float32(into.subarray(0, numRows * width), [numRows, width]);
        // A product that is itself a result.
        const result = results[name];
        if (result !== undefined) floats(result).set(floats(values[name]));
      }
    }
    return Object.fromEntries(Array.from(this.#outputNames, (name) => [name, values[name]!]));
  }

  get flopsOfRun(): number {
    return this.#flops;
  }

  close(): void {
    for (const { session } of this.#parts) session?.close();
    this.#scratch.clear();
  }

  #bufferOf(session: GraphSession, name: string, values: Tensors): Tensor {
    const dims = session.dimsOf(name, values);
    return float32(
      this.#scratch.take(
        name,
        dims.reduce((product, dim) => product * dim, 1),
      ),
      dims,
    );
  }
}
