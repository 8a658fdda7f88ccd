import {
  adaptedLinears,
  adapterName,
  type Architecture,
  biasName,
  type BlockWeights,
  gradientName,
  headNormName,
  normName,
  postNormName,
  INPUT_NAMES,
  type InputName,
  inputOf,
  INPUTS,
  LINEAR_NAMES,
  linearDims,
  type LinearName,
  type LoraHalf,
  lowWidth,
  PROJECTION_NAMES,
  type ProjectionName,
  PROJECTIONS,
  sharedFloats,
  weightName,
  type WideMatrix,
} from '@trainyard/transformer';
import type { LoraParameters, LoraTensor } from '../model/policy-model.ts';

/** Inputs of the graph before attention, and of the one after it. */
const ATTENTION_INPUTS: readonly InputName[] = ['attention'];
const OUTPUT_INPUTS: readonly InputName[] = INPUT_NAMES.filter((name) => name !== 'attention');

/** Keys are graph inputs or outputs. */
export type NamedArrays = Readonly<Record<string, { readonly data: Float32Array; readonly dims: readonly number[] }>>;

/** Constant inputs; large ones are shared memory. */
export interface BlockParameters {
  readonly attentionInput: NamedArrays;
  readonly output: NamedArrays;
}

/** Keys are outputs of the backward graphs. */
export type AdapterGradients = NamedArrays;

/** Place of a `b` after its projection's weights. */
interface AdapterPlace {
  readonly projection: ProjectionName;
  readonly firstRow: number;
  readonly firstColumn: number;
  /** Columns of all adapters of the projection's input. */
  readonly width: number;
}

const postNormsOf = ({ postNorms }: BlockWeights): Readonly<Record<string, Float32Array>> =>
  postNorms === null
    ? {}
    : {
        [postNormName('attention')]: postNorms.attention,
        [postNormName('feedForward')]: postNorms.feedForward,
      };

/** One block's adapter in the layout of its graphs: joint `a` matrices, and `b` after the weights. */
export class BlockAdapter {
  readonly #lora: LoraParameters;
  readonly #tensors: ReadonlyMap<string, LoraTensor>;
  readonly #matrices: Readonly<Record<ProjectionName, WideMatrix>>;
  readonly #joint = new Map<InputName, NamedArrays[string]>();
  readonly #outputRows: ReadonlyMap<LinearName, number>;

  constructor(
    architecture: Architecture,
    matrices: Readonly<Record<ProjectionName, WideMatrix>>,
    lora: LoraParameters,
    layer: number,
  ) {
    this.#lora = lora;
    this.#matrices = matrices;
    this.#tensors = new Map(
      lora.tensors
        .filter((tensor) => tensor.layer === layer)
        .map((tensor) => [`${tensor.linear}.${tensor.half}`, tensor]),
    );
    this.#outputRows = new Map(LINEAR_NAMES.map((linear) => [linear, linearDims(architecture, linear).out]));
    for (const projection of PROJECTION_NAMES) matrices[projection].reserve(lowWidth(inputOf(projection), lora.config));
    for (const input of INPUT_NAMES) {
      const [first] = adaptedLinears(input, lora.config);
      if (first === undefined) continue;
      const dims = [lowWidth(input, lora.config), linearDims(architecture, first).in];
      this.#joint.set(input, { data: sharedFloats(dims[0]! * dims[1]!), dims });
    }
  }

  adapts(input: InputName): boolean {
    return this.#joint.has(input);
  }

  /** @param withoutAdapter writes zeros for `a`: the columns of `b` then add exactly 0 */
  load(withoutAdapter: boolean): void {
    const { rank, alpha } = this.#lora.config;
    for (const [input, { data }] of this.#joint) {
      if (withoutAdapter) data.fill(0);
      else
        adaptedLinears(input, this.#lora.config).reduce((at, linear) => {
          const { value } = this.#tensor(linear, 'a');
          data.set(value, at);
          return at + value.length;
        }, 0);
    }
    if (withoutAdapter) return;
    this.#eachPlace((tensor, { projection, firstRow, firstColumn }) => {
      const { data, width, columns } = this.#matrices[projection];
      const numRows = tensor.value.length / rank;
      for (let row = 0; row < numRows; row++) {
        const to = (firstRow + row) * width + columns + firstColumn;
        for (let j = 0; j < rank; j++) data[to + j] = (alpha / rank) * tensor.value[row * rank + j]!;
      }
    });
  }

  /**
   * Frozen weights, and the adapter's memory written by `load`.
   *
   * @param isStreamed the lanes feed the weights, with `b` after them
   */
  parameters(weights: BlockWeights, isStreamed: boolean): BlockParameters {
    return {
      attentionInput: this.#arrays(weights, ATTENTION_INPUTS, isStreamed, {
        [normName('attention')]: weights.attentionNorm,
      }),
      output: this.#arrays(weights, OUTPUT_INPUTS, isStreamed, {
        [normName('feedForward')]: weights.feedForwardNorm,
        ...postNormsOf(weights),
      }),
    };
  }

  #arrays(
    weights: BlockWeights,
    inputs: readonly InputName[],
    isStreamed: boolean,
    norms: Readonly<Record<string, Float32Array>>,
  ): NamedArrays {
    const vector = (data: Float32Array) => ({ data, dims: [data.length] });
    const arrays: Record<string, NamedArrays[string]> = {};
    for (const [name, norm] of Object.entries(norms)) arrays[name] = vector(norm);
    for (const name of inputs) {
      const joint = this.#joint.get(name);
      if (joint !== undefined) arrays[adapterName(name, 'a')] = joint;
      for (const projection of INPUTS[name]) {
        const { data, rows, columns, width } = weights.matrices[projection];
        if (isStreamed) continue;
        // Without weights only `b` remains, which is a separate input of the graphs.
        if (columns > 0) arrays[weightName(projection)] = { data, dims: [rows, width] };
        else if (width > 0) arrays[adapterName(projection, 'b')] = { data, dims: [rows, width] };
      }
    }
    if (weights.bias !== null) arrays[biasName] = vector(weights.bias);
    for (const linear of ['q', 'k'] as const) {
      if (weights.headNorms !== null) arrays[headNormName(linear)] = vector(weights.headNorms[linear]);
    }
    return arrays;
  }

  gradientDims(): Readonly<Record<string, readonly [number, number]>> {
    const all: Record<string, readonly [number, number]> = {};
    for (const [input, { dims }] of this.#joint) {
      const [low, width] = dims as [number, number];
      all[gradientName(adapterName(input, 'a'))] = [low, width];
      for (const projection of INPUTS[input])
        all[gradientName(adapterName(projection, 'b'))] = [this.#matrices[projection].rows, low];
    }
    return all;
  }

  /** Adds to the adapter's gradients. */
  addGradients(parts: AdapterGradients): void {
    for (const input of this.#joint.keys()) {
      const { data: values } = parts[gradientName(adapterName(input, 'a'))]!;
      let at = 0;
      for (const linear of adaptedLinears(input, this.#lora.config)) {
        const { gradient } = this.#tensor(linear, 'a');
        for (let i = 0; i < gradient.length; i++) gradient[i]! += values[at + i]!;
        at += gradient.length;
      }
    }
    const { rank } = this.#lora.config;
    this.#eachPlace(({ gradient }, { projection, firstRow, firstColumn, width }) => {
      const { data: values } = parts[gradientName(adapterName(projection, 'b'))]!;
      const numRows = gradient.length / rank;
      for (let row = 0; row < numRows; row++) {
        const from = (firstRow + row) * width + firstColumn;
        for (let j = 0; j < rank; j++) gradient[row * rank + j]! += values[from + j]!;
      }
    });
  }

  /** Visits each `b`'s place after its projection's weights. */
  #eachPlace(visit: (b: LoraTensor, place: AdapterPlace) => void): void {
    for (const projection of PROJECTION_NAMES) {
      const input = inputOf(projection);
      const adapted = adaptedLinears(input, this.#lora.config);
      const width = lowWidth(input, this.#lora.config);
      let firstRow = 0;
      for (const linear of PROJECTIONS[projection]) {
        if (adapted.includes(linear)) {
          const firstColumn = adapted.indexOf(linear) * this.#lora.config.rank;
          visit(this.#tensor(linear, 'b'), { projection, firstRow, firstColumn, width });
        }
        firstRow += this.#outputRows.get(linear)!;
      }
    }
  }

  #tensor(linear: LinearName, half: LoraHalf): LoraTensor {
    return this.#tensors.get(`${linear}.${half}`)!;
  }
}
