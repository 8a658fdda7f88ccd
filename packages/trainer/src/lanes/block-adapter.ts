import {
  adaptedLinears,
  adapterName,
  type Architecture,
  baseScale,
  biasName,
  type BlockWeights,
  type ByProjection,
  type DeltaVectors,
  type ExpertWeights,
  gradientName,
  graphRank,
  inputNormName,
  outputBiasName,
  outputNormName,
  queryKeyNormName,
  type InputName,
  INPUTS,
  inputsIn,
  linearDims,
  type LinearName,
  type LoraHalf,
  lowWidth,
  moduleShape,
  type ProjectionName,
  projectionParts,
  ROUTER_BIAS_NAME,
  ROUTER_NAME,
  sharedFloats,
  SINKS_NAME,
  weightName,
  type WideMatrix,
} from '@trainyard/transformer';
import type { LoraParameters, LoraTensor } from '../model/policy-model.ts';

/** Keys are graph inputs or outputs. */
export type NamedArrays = Readonly<Record<string, { readonly data: Float32Array; readonly dims: readonly number[] }>>;

/** Constant inputs; large ones are shared memory. */
export interface BlockParameters {
  readonly attentionInput: NamedArrays;
  /** Inputs of attention itself. */
  readonly attention: NamedArrays;
  /** With the router of a block with experts. */
  readonly output: NamedArrays;
  /** Null: the block is dense. */
  readonly experts: Pick<ExpertWeights, 'matrices' | 'biases'> | null;
  /** Weights [size, H] of a convolution, whose input is in place of attention's; null: the block has attention. */
  readonly convolution: Float32Array | null;
  /** Null: the block has no gated delta net. */
  readonly deltaNet: DeltaVectors | null;
}

/** Keys are outputs of the backward graphs. */
export type AdapterGradients = NamedArrays;

type NamedVectors = Readonly<Record<string, Float32Array>>;

/** Place of an `a` in the joint one of its input; rows beyond its rank are 0. */
interface JointPlace {
  readonly input: InputName;
  readonly a: LoraTensor;
  readonly at: number;
}

/** Place of a `b`, or of some rows of it, after its projection's weights. */
interface AdapterPlace {
  readonly b: LoraTensor;
  readonly projection: ProjectionName;
  readonly firstRow: number;
  /** Rows of the `b` that this projection has. */
  readonly ownRows: { readonly first: number; readonly count: number };
  readonly firstColumn: number;
  /** At most the columns of this linear layer; the others are 0. */
  readonly rank: number;
  readonly numColumns: number;
  readonly scale: number;
  /** Columns of all adapters of the projection's input. */
  readonly width: number;
}

const vector = (data: Float32Array) => ({ data, dims: [data.length] });

/** Norms of the graph before attention, and of the one after it. */
function normsOf({
  normsBefore,
  normsAfter,
}: BlockWeights): Readonly<Record<'attentionInput' | 'output', NamedVectors>> {
  return {
    attentionInput: normsBefore === null ? {} : { [inputNormName('attention')]: normsBefore.attention },
    output: {
      ...(normsBefore !== null && { [inputNormName('feedForward')]: normsBefore.feedForward }),
      ...(normsAfter !== null && {
        [outputNormName('attention')]: normsAfter.attention,
        [outputNormName('feedForward')]: normsAfter.feedForward,
      }),
    },
  };
}

/** One block's adapter in the layout of its graphs: joint `a` matrices, and `b` after the weights. */
export class BlockAdapter {
  readonly #lora: LoraParameters;
  readonly #inputs: readonly InputName[];
  readonly #hiddenSize: number;
  readonly #sinkDims: readonly number[];
  readonly #matrices: ByProjection<WideMatrix>;
  readonly #joint = new Map<InputName, NamedArrays[string]>();
  readonly #jointPlaces: JointPlace[] = [];
  /** Places of each `b`: one, or one per projection for a fused linear layer. */
  readonly #places: AdapterPlace[] = [];

  constructor(architecture: Architecture, matrices: ByProjection<WideMatrix>, lora: LoraParameters, layer: number) {
    this.#lora = lora;
    this.#matrices = matrices;
    this.#inputs = inputsIn(architecture, layer);
    this.#hiddenSize = architecture.hiddenSize;
    const { numHeads, numKvHeads } = architecture;
    this.#sinkDims = [numKvHeads, numHeads / numKvHeads, 1, 1];
    for (const input of this.#inputs) {
      const width = lowWidth(input, lora.config);
      for (const projection of INPUTS[input]) matrices[projection]!.reserve(width);
      const [first] = adaptedLinears(input, lora.config);
      if (first === undefined) continue;
      const dims = [width, linearDims(architecture, first).in];
      this.#joint.set(input, { data: sharedFloats(dims[0]! * dims[1]!), dims });
      this.#findPlaces(architecture, layer, input);
    }
  }

  /** True if an adapter changes attention's q, k or v, or the input of what a block has instead. */
  get adaptsFirst(): boolean {
    return this.#joint.has(this.#inputs[0]!);
  }

  /** @param withoutAdapter writes zeros for `a`: the columns of `b` then add exactly 0 */
  load(withoutAdapter: boolean): void {
    if (withoutAdapter) {
      for (const { data } of this.#joint.values()) data.fill(0);
      return;
    }
    for (const { input, a, at } of this.#jointPlaces) this.#joint.get(input)!.data.set(a.value, at);
    for (const { b, projection, firstRow, ownRows, firstColumn, rank, numColumns, scale } of this.#places) {
      const { value } = b;
      const { data, width, columns } = this.#matrices[projection]!;
      for (let row = 0; row < ownRows.count; row++) {
        const to = (firstRow + row) * width + columns + firstColumn;
        const from = (ownRows.first + row) * rank;
        for (let j = 0; j < rank; j++) data[to + j] = scale * value[from + j]!;
        // The matrix may have had another adapter.
        if (rank < numColumns) data.fill(0, to + rank, to + numColumns);
      }
    }
  }

  /**
   * Frozen weights, and the adapter's memory written by `load`.
   *
   * @param isStreamed the lanes feed the weights, with `b` after them
   */
  parameters(weights: BlockWeights, isStreamed: boolean): BlockParameters {
    const norms = normsOf(weights);
    const { experts } = weights;
    const hidden = this.#hiddenSize;
    const [first, ...inputs] = this.#inputs;
    return {
      attentionInput: this.#arrays(weights, isStreamed, { inputs: [first!], norms: norms.attentionInput }),
      attention: weights.sinks === null ? {} : { [SINKS_NAME]: { data: weights.sinks, dims: this.#sinkDims } },
      output: {
        ...this.#arrays(weights, isStreamed, { inputs, norms: norms.output }),
        ...(weights.outputBias !== null && { [outputBiasName]: vector(weights.outputBias) }),
        ...(experts !== null && {
          [ROUTER_NAME]: { data: experts.router, dims: [experts.router.length / hidden, hidden] },
        }),
        ...(experts !== null && experts.biases !== null && { [ROUTER_BIAS_NAME]: vector(experts.biases.router) }),
      },
      experts,
      convolution: weights.convolution,
      deltaNet: weights.deltaNet,
    };
  }

  #arrays(
    weights: BlockWeights,
    isStreamed: boolean,
    { inputs, norms }: { readonly inputs: readonly InputName[]; readonly norms: NamedVectors },
  ): NamedArrays {
    const arrays: Record<string, NamedArrays[string]> = {};
    for (const [name, norm] of Object.entries(norms)) arrays[name] = vector(norm);
    for (const name of inputs) {
      const joint = this.#joint.get(name);
      if (joint !== undefined) arrays[adapterName(name, 'a')] = joint;
      for (const projection of INPUTS[name]) {
        const { data, rows, columns, width } = weights.matrices[projection]!;
        if (isStreamed) continue;
        // Without weights only `b` remains, which is a separate input of the graphs.
        if (columns > 0) arrays[weightName(projection)] = { data, dims: [rows, width] };
        else if (width > 0) arrays[adapterName(projection, 'b')] = { data, dims: [rows, width] };
      }
    }
    if (weights.bias !== null) arrays[biasName] = vector(weights.bias);
    for (const linear of ['q', 'k'] as const) {
      if (weights.queryKeyNorms !== null) arrays[queryKeyNormName(linear)] = vector(weights.queryKeyNorms[linear]);
    }
    return arrays;
  }

  gradientDims(): Readonly<Record<string, readonly [number, number]>> {
    const all: Record<string, readonly [number, number]> = {};
    for (const [input, { dims }] of this.#joint) {
      const [low, width] = dims as [number, number];
      all[gradientName(adapterName(input, 'a'))] = [low, width];
      for (const projection of INPUTS[input])
        all[gradientName(adapterName(projection, 'b'))] = [this.#matrices[projection]!.rows, low];
    }
    return all;
  }

  /** Adds to the adapter's gradients. @param parts those of `b` at the base scale */
  addGradients(parts: AdapterGradients): void {
    for (const { input, a, at } of this.#jointPlaces) {
      const { gradient } = a;
      const { data: values } = parts[gradientName(adapterName(input, 'a'))]!;
      for (let i = 0; i < gradient.length; i++) gradient[i]! += values[at + i]!;
    }
    for (const { b, projection, firstRow, ownRows, firstColumn, rank, width, scale } of this.#places) {
      const { gradient } = b;
      const { data: values } = parts[gradientName(adapterName(projection, 'b'))]!;
      const factor = scale / baseScale(this.#lora.config);
      for (let row = 0; row < ownRows.count; row++) {
        const from = (firstRow + row) * width + firstColumn;
        const to = (ownRows.first + row) * rank;
        for (let j = 0; j < rank; j++) gradient[to + j]! += factor * values[from + j]!;
      }
    }
  }

  /** The adapters' columns are in the order of their rows in the joint `a`. */
  #findPlaces(architecture: Architecture, layer: number, input: InputName): void {
    const { config, tensors } = this.#lora;
    const tensorOf = (linear: LinearName, half: LoraHalf) =>
      tensors.find((tensor) => tensor.layer === layer && tensor.linear === linear && tensor.half === half)!;
    const columns = new Map<LinearName, Pick<AdapterPlace, 'firstColumn' | 'numColumns'>>();
    let width = 0;
    for (const linear of adaptedLinears(input, config)) {
      const a = tensorOf(linear, 'a');
      const numColumns = graphRank(config, linear);
      this.#jointPlaces.push({ input, a, at: width * a.dims[1] });
      columns.set(linear, { firstColumn: width, numColumns });
      width += numColumns;
    }
    for (const projection of INPUTS[input]) {
      let firstRow = 0;
      for (const { linear, ...rows } of projectionParts(architecture, projection)) {
        const own = columns.get(linear);
        const ownRows = { first: rows.firstRow, count: rows.numRows };
        if (own !== undefined) {
          const { rank, scale } = moduleShape(config, layer, linear);
          this.#places.push({ b: tensorOf(linear, 'b'), projection, firstRow, ownRows, ...own, rank, scale, width });
        }
        firstRow += rows.numRows;
      }
    }
  }
}
