/**
 * Compiles tensor expressions to an ONNX model: orders them, shares equal subexpressions, expands composite
 * operations.
 */
import assert from 'node:assert/strict';
import { topologicalOrder } from './autodiff.ts';
import { fuseSums } from './fuse-sums.ts';
import type { Shape, Value } from './graph.ts';
import type { AttributeValue, Dim, OnnxConstant, OnnxNode, OnnxTensorType } from './onnx-writer.ts';
import { encodeOnnxModel } from './onnx-writer.ts';

const MIN_BYTES_BESIDE = 65_536;

export interface CompiledGraph {
  readonly bytes: Uint8Array;
  /** Constants outside the bytes, because copying them would dominate the cost. */
  readonly weightFiles: ReadonlyMap<string, Float32Array>;
  readonly inputs: readonly OnnxTensorType[];
  readonly outputNames: readonly string[];
  /** They take most of a run's time. */
  readonly products: readonly ProductSize[];
}

export interface ConstantTensor {
  readonly data: Float32Array;
  readonly dims: readonly number[];
}

/** `batch` products of [m, k] and [k, n]. */
export interface ProductSize {
  readonly batch: readonly Dim[];
  readonly m: Dim;
  readonly k: Dim;
  readonly n: Dim;
}

/**
 * @param outputs expressions that they do not need are left out
 * @param options.constants inputs that become part of the graph, laid out once for the library's products
 * @param options.savedAsInputs if true, a `saved` value becomes a graph input; otherwise it is computed. Default
 * false
 */
export function compileGraph(
  outputs: Readonly<Record<string, Value>>,
  options: { savedAsInputs?: boolean; constants?: Readonly<Record<string, ConstantTensor>> } = {},
): CompiledGraph {
  const isInput = (node: Value) => node.operation.kind === 'saved' && options.savedAsInputs === true;
  const emitter = new Emitter(options.constants ?? {});
  const names = new Map<Value, string>();
  const shapes = new Map<string, Shape>();
  const products: ProductSize[] = [];
  for (const node of topologicalOrder(Object.values(outputs), isInput)) {
    const name = isInput(node)
      ? emitter.input(savedName(node), node)
      : emitter.emit(
          node,
          node.inputs.map((x) => names.get(x)!),
        );
    names.set(node, name);
    shapes.set(name, node.shape);
    if (node.operation.kind === 'matmul') products.push(productSize(node, node.operation.transposeA));
  }
  fuseSums(
    emitter.nodes,
    shapes,
    Object.values(outputs).map((node) => names.get(node)!),
  );
  const results = Object.entries(outputs).map(([name, node]): OnnxTensorType => {
    emitter.nameOutput(names.get(node)!, name);
    return { name, type: node.type, shape: node.shape };
  });
  const bytes = encodeOnnxModel({
    nodes: emitter.nodes,
    inputs: emitter.inputs,
    outputs: results,
    constants: emitter.constants,
  });
  const outputNames = results.map((x) => x.name);
  const weightFiles = new Map<string, Float32Array>();
  for (const { name, data, isBeside } of emitter.constants)
    if (isBeside && data instanceof Float32Array) weightFiles.set(name, data);
  return { bytes, weightFiles, inputs: emitter.inputs, outputNames, products };
}

function productSize({ shape, inputs }: Value, transposeA: boolean): ProductSize {
  const [m, n] = shape.slice(-2) as [Dim, Dim];
  return { batch: shape.slice(0, -2), m, k: inputs[0]!.shape.at(transposeA ? -2 : -1)!, n };
}

function savedName(node: Value): string {
  assert(node.operation.kind === 'saved');
  return node.operation.name;
}

class Emitter {
  readonly nodes: OnnxNode[] = [];
  readonly inputs: OnnxTensorType[] = [];
  readonly constants: OnnxConstant[] = [];
  /** Results by operator, inputs and attributes, so that equal expressions are computed once. */
  readonly #known = new Map<string, string>();
  readonly #given: Readonly<Record<string, ConstantTensor>>;
  /** Output name by the result name that it replaced. */
  readonly #named = new Map<string, string>();
  #count = 0;

  constructor(given: Readonly<Record<string, ConstantTensor>>) {
    this.#given = given;
  }

  input(name: string, node: Value): string {
    const given = this.#given[name];
    if (given !== undefined)
      return this.#constant(name, given.dims, given.data, given.data.byteLength >= MIN_BYTES_BESIDE);
    if (!this.inputs.some((x) => x.name === name)) this.inputs.push({ name, type: node.type, shape: node.shape });
    return name;
  }

  /** Renames the result's node: an `Identity` would cost a pass over memory. */
  nameOutput(result: string, output: string): void {
    const index = this.nodes.findIndex((node) => node.outputs.includes(result));
    if (index === -1 || this.#named.has(result)) {
      this.node('Identity', [this.#named.get(result) ?? result], {}, { output });
      return;
    }
    this.#named.set(result, output);
    const renamed = (name: string) => (name === result ? output : name);
    for (const [at, node] of this.nodes.entries()) {
      this.nodes[at] = { ...node, inputs: node.inputs.map(renamed), outputs: node.outputs.map(renamed) };
    }
  }

  node(
    operator: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, AttributeValue>> = {},
    options: { domain?: '' | 'com.microsoft'; output?: string; results?: 1 | 2 } = {},
  ): string {
    const key = JSON.stringify([operator, inputs, attributes, options.output]);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const output = options.output ?? `t${this.#count++}`;
    const outputs = options.results === 2 ? [output, secondResult(output)] : [output];
    this.nodes.push({ operator, domain: options.domain ?? '', inputs, outputs, attributes });
    this.#known.set(key, output);
    return output;
  }

  emit(node: Value, inputs: readonly string[]): string {
    const { operation } = node;
    const [a, b] = inputs as readonly [string, string];
    switch (operation.kind) {
      case 'input':
        return this.input(operation.name, node);
      case 'saved':
        return a;
      case 'constant':
        return this.#scalar(operation.value);
      case 'add':
        return this.node('Add', inputs);
      case 'sub':
        return this.node('Sub', inputs);
      case 'mul':
        return this.node('Mul', inputs);
      case 'log':
        return this.node('Log', inputs);
      case 'sigmoid':
        return this.node('Sigmoid', inputs);
      case 'softmax':
        return this.node('Softmax', inputs, { axis: { int: -1 } });
      case 'silu':
        return this.node('Mul', [a, this.node('Sigmoid', [a])]);
      case 'clip':
        return this.#clip(a, operation);
      case 'isWithin':
        // FLOAT of TensorProto.
        return this.node('Cast', [this.node('Equal', [a, this.#clip(a, operation)])], { to: { int: 1 } });
      case 'concat':
        return this.node('Concat', inputs, { axis: { int: -1 } });
      case 'slice':
        return this.node('Slice', [
          a,
          this.#integers([operation.start]),
          this.#integers([operation.end]),
          this.#integers([-1]),
        ]);
      case 'rmsNorm': {
        // Requests the second result even if it is unused: ONNX Runtime measured faster with it
        // (docs/lab/experiments.md).
        const attributes = { axis: { int: -1 }, epsilon: { float: operation.epsilon } };
        return this.node('SimplifiedLayerNormalization', inputs, attributes, { results: 2 });
      }
      case 'inverseRms':
        return secondResult(a);
      case 'rope':
        return this.node('RotaryEmbedding', [a, this.#integers([0]), b, inputs[2]!], partOfHeads(node), {
          domain: 'com.microsoft',
        });
      case 'matmul': {
        const attributes = {
          transA: { int: Number(operation.transposeA) },
          transB: { int: Number(operation.transposeB) },
          alpha: { float: operation.scale },
        };
        return node.shape.length === 2
          ? this.node('Gemm', inputs, attributes)
          : this.node('FusedMatMul', inputs, attributes, { domain: 'com.microsoft' });
      }
      case 'product':
        throw new assert.AssertionError({
          message: `the product by ${operation.matrix} is computed outside of graphs`,
        });
      case 'transpose':
        return this.node('Transpose', inputs, { perm: { ints: operation.permutation } });
      case 'reshape':
        return this.node('Reshape', [a, this.#integers(reshapeTarget(node))]);
      case 'reduceSum':
        return this.node('ReduceSum', [a, this.#integers(operation.axes)], { keepdims: { int: 1 } });
      case 'reduceMax':
        return this.node('ReduceMax', [a, this.#integers(operation.axes)], { keepdims: { int: 1 } });
      case 'gatherRows':
        return this.node('Gather', inputs, { axis: { int: 0 } });
      default:
        return operation satisfies never;
    }
  }

  #clip(x: string, { least, most }: { readonly least: number; readonly most: number }): string {
    return this.node('Clip', [x, this.#scalar(least), this.#scalar(most)]);
  }

  #scalar(value: number): string {
    return this.#constant(`f${value}`, [], Float32Array.of(value));
  }

  #integers(values: readonly number[]): string {
    return this.#constant(`i${values.join('_')}`, [values.length], BigInt64Array.from(values, BigInt));
  }

  #constant(name: string, shape: readonly number[], data: Float32Array | BigInt64Array, isBeside = false): string {
    if (!this.constants.some((x) => x.name === name)) this.constants.push({ name, shape, data, isBeside });
    return name;
  }
}

/** Attributes of rope over the first columns of each head; none for rope over all. */
function partOfHeads({ operation, inputs }: Value): Readonly<Record<string, AttributeValue>> {
  assert(operation.kind === 'rope');
  const half = inputs[1]!.shape.at(-1);
  if (operation.numHeads === null) return {};
  assert(typeof half === 'number', 'rope tables have a fixed width');
  return { num_heads: { int: operation.numHeads }, rotary_embedding_dim: { int: 2 * half } };
}

const secondResult = (output: string) => `${output}.second`;

/** Target in ONNX form: 0 copies the input's size on the same axis, -1 is the remaining size. */
function reshapeTarget(node: Value): number[] {
  const from = node.inputs[0]!.shape;
  const target = node.shape.map((dim, axis) => (typeof dim === 'number' ? dim : from[axis] === dim ? 0 : -1));
  assert(
    target.filter((dim) => dim === -1).length <= 1,
    `reshape [${from.join()}] → [${node.shape.join()}] moves two run-time sizes`,
  );
  return target;
}
