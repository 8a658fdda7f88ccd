import type { Architecture } from './architecture.ts';
import { linearDims } from './architecture.ts';
import type { LinearName, LoraConfig } from './lora-config.ts';
import { graphRank } from './lora-modules.ts';
import { sharedFloats } from './workspace.ts';

/** One matrix product of a block: linear layers with adjacent outputs. */
export type ProjectionName = 'qkv' | 'o' | 'gate' | 'up' | 'down';

/** Inputs of the linear layers of a block. Their adapters' `a` are rows of one matrix. */
export type InputName = 'attention' | 'o' | 'feedForward' | 'down';

export const PROJECTIONS: Readonly<Record<ProjectionName, readonly LinearName[]>> = {
  qkv: ['q', 'k', 'v'],
  o: ['o'],
  gate: ['gate'],
  up: ['up'],
  down: ['down'],
};

export const INPUTS: Readonly<Record<InputName, readonly ProjectionName[]>> = {
  attention: ['qkv'],
  o: ['o'],
  feedForward: ['gate', 'up'],
  down: ['down'],
};

export const PROJECTION_NAMES = Object.keys(PROJECTIONS) as ProjectionName[];
export const INPUT_NAMES = Object.keys(INPUTS) as InputName[];

export function projectionDims(architecture: Architecture, projection: ProjectionName): { in: number; out: number } {
  const dims = PROJECTIONS[projection].map((linear) => linearDims(architecture, linear));
  return { in: dims[0]!.in, out: dims.reduce((sum, { out }) => sum + out, 0) };
}

/** Ordered like their rows in the joint `a`. */
export const adaptedLinears = (input: InputName, lora: LoraConfig): readonly LinearName[] =>
  INPUTS[input].flatMap((projection) => PROJECTIONS[projection]).filter((linear) => lora.targets.includes(linear));

/** Rows of the joint `a` of an input; also the number of columns after the weights of its projections. */
export const lowWidth = (input: InputName, lora: LoraConfig): number =>
  adaptedLinears(input, lora).reduce((sum, linear) => sum + graphRank(lora, linear), 0);

export const inputOf = (projection: ProjectionName): InputName =>
  INPUT_NAMES.find((input) => INPUTS[input].includes(projection))!;

/**
 * A frozen weight matrix with room for adapters after each row: `[W | scale · b]`. With the input `[x | x · aᵀ]`
 * one product gives `x · Wᵀ + scale · (x · aᵀ) · bᵀ`; separate rank-8 products would cost a tenth of a step.
 */
export class WideMatrix {
  readonly rows: number;
  readonly columns: number;
  #data: Float32Array;
  #extra: number;

  /** @param parts stacked vertically, `columns` wide each @param rows default: those of the parts */
  constructor(
    columns: number,
    parts: readonly Float32Array[],
    extra: number,
    rows = parts.reduce((sum, part) => sum + part.length, 0) / columns,
  ) {
    this.columns = columns;
    this.rows = rows;
    this.#extra = extra;
    this.#data = sharedFloats(this.rows * this.width);
    let row = 0;
    for (const part of parts) {
      for (let from = 0; from < part.length; from += columns)
        this.#data.set(part.subarray(from, from + columns), row++ * this.width);
    }
  }

  /** Creates only the room, for weights stored elsewhere. */
  static withoutWeights(rows: number, extra: number): WideMatrix {
    return new WideMatrix(0, [], extra, rows);
  }

  /** [rows, width] */
  get data(): Float32Array {
    return this.#data;
  }

  get width(): number {
    return this.columns + this.#extra;
  }

  /**
   * Rearranges the matrix if the room after each row is not `extra` columns. Earlier views of `data` are then
   * stale.
   */
  reserve(extra: number): void {
    if (extra === this.#extra) return;
    const from = this.#data;
    const oldWidth = this.width;
    this.#extra = extra;
    this.#data = sharedFloats(this.rows * this.width);
    for (let row = 0; row < this.rows; row++)
      this.#data.set(from.subarray(row * oldWidth, row * oldWidth + this.columns), row * this.width);
  }

  /** Copies rows without the room after them. */
  plainRows(start: number, end: number): Float32Array {
    const result = new Float32Array((end - start) * this.columns);
    for (let row = start; row < end; row++) {
      const at = row * this.width;
      result.set(this.#data.subarray(at, at + this.columns), (row - start) * this.columns);
    }
    return result;
  }
}
