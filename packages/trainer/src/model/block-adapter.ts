import type { Tensor } from 'onnxruntime-common';
import type { Tensors } from '../graph/session.ts';
import { float32 } from '../graph/session.ts';
import type { Architecture } from './architecture.ts';
import { linearDims } from './architecture.ts';
import { adapterName, gradientName } from './block-graph.ts';
import type { LinearName, LoraHalf, LoraParameters, LoraTensor } from './policy-model.ts';
import { LINEAR_NAMES } from './policy-model.ts';
import type { InputName, ProjectionName, WideMatrix } from './projections.ts';
import { INPUT_NAMES, PROJECTIONS, PROJECTION_NAMES, adaptedLinears, inputOf, lowWidth } from './projections.ts';

/** The adapter of one block as its graphs read it: joint `a` matrices, and `b` behind the weights. */
export class BlockAdapter {
  readonly #lora: LoraParameters;
  readonly #tensors: ReadonlyMap<string, LoraTensor>;
  readonly #matrices: Readonly<Record<ProjectionName, WideMatrix>>;
  readonly #joint = new Map<InputName, { readonly tensor: Tensor; readonly data: Float32Array }>();
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
      const data = new Float32Array(dims[0]! * dims[1]!);
      this.#joint.set(input, { data, tensor: float32(data, dims) });
    }
  }

  /** Whether any linear layer that reads the input carries an adapter. */
  adapts(input: InputName): boolean {
    return this.#joint.has(input);
  }

  /** Makes the graphs compute with the adapter as it is now, or without: with `a` zero whatever is behind the weights adds exactly 0. */
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
    this.#eachPlace((tensor, projection, firstRow, firstColumn) => {
      const { data, width, columns } = this.#matrices[projection];
      const numRows = tensor.value.length / rank;
      for (let row = 0; row < numRows; row++) {
        const to = (firstRow + row) * width + columns + firstColumn;
        for (let j = 0; j < rank; j++) data[to + j] = (alpha / rank) * tensor.value[row * rank + j]!;
      }
    });
  }

  feeds(inputs: readonly InputName[]): Tensors {
    return Object.fromEntries(
      inputs.flatMap((input) => {
        const joint = this.#joint.get(input);
        return joint === undefined ? [] : [[adapterName(input, 'a'), joint.tensor]];
      }),
    );
  }

  /** Adds what a backward run gave to the gradients of the adapter. */
  addGradients(outputs: Tensors): void {
    for (const input of this.#joint.keys()) {
      const part = outputs[gradientName(adapterName(input, 'a'))];
      if (part === undefined) continue;
      const values = floats(part);
      let at = 0;
      for (const linear of adaptedLinears(input, this.#lora.config)) {
        const { gradient } = this.#tensor(linear, 'a');
        for (let i = 0; i < gradient.length; i++) gradient[i]! += values[at + i]!;
        at += gradient.length;
      }
    }
    const { rank } = this.#lora.config;
    this.#eachPlace(({ gradient }, projection, firstRow, firstColumn, width) => {
      const part = outputs[gradientName(adapterName(projection, 'b'))];
      if (part === undefined) return;
      const values = floats(part);
      const numRows = gradient.length / rank;
      for (let row = 0; row < numRows; row++) {
        const from = (firstRow + row) * width + firstColumn;
        for (let j = 0; j < rank; j++) gradient[row * rank + j]! += values[from + j]!;
      }
    });
  }

  /** Where each `b` lies behind its projection's weights: first row, first column there, and the columns there are. */
  #eachPlace(
    visit: (b: LoraTensor, projection: ProjectionName, row: number, column: number, width: number) => void,
  ): void {
    for (const projection of PROJECTION_NAMES) {
      const input = inputOf(projection);
      const adapted = adaptedLinears(input, this.#lora.config);
      let row = 0;
      for (const linear of PROJECTIONS[projection]) {
        if (adapted.includes(linear)) {
          const column = adapted.indexOf(linear) * this.#lora.config.rank;
          visit(this.#tensor(linear, 'b'), projection, row, column, lowWidth(input, this.#lora.config));
        }
        row += this.#outputRows.get(linear)!;
      }
    }
  }

  #tensor(linear: LinearName, half: LoraHalf): LoraTensor {
    return this.#tensors.get(`${linear}.${half}`)!;
  }
}

export function floats(tensor: Tensor): Float32Array {
  if (!(tensor.data instanceof Float32Array)) throw new TypeError(`expected a float32 result, got ${tensor.type}`);
  return tensor.data;
}
