import type { Architecture } from './architecture.ts';
import { type BlockSizes, linearDims } from './architecture.ts';
import { expertsIn } from './experts.ts';
import { hasAttention } from './layer-mixer.ts';
import type { LinearName, LoraConfig } from './lora-config.ts';
import { graphRank } from './lora-modules.ts';
import { sharedFloats } from './workspace.ts';

/**
 * One matrix product of a block: linear layers with adjacent outputs. `convIn` and `convOut` are those before and after
 * a convolution or a gated delta net, instead of `qkv` and `o`.
 */
export type ProjectionName = 'qkv' | 'convIn' | 'o' | 'convOut' | 'gate' | 'up' | 'down';

/** Inputs of the linear layers of a block. Their adapters' `a` are rows of one matrix. */
export type InputName = 'attention' | 'convIn' | 'o' | 'convOut' | 'feedForward' | 'down';

/** Adjacent rows of a linear layer: all of them, or those that a projection has of a fused layer. */
export interface LinearRows {
  readonly linear: LinearName;
  readonly firstRow: number;
  readonly numRows: number;
}

type LinearLayout = 'separate' | 'fused' | 'convolution' | 'delta';

/** Empty for a projection that no block has. */
const LINEARS: Readonly<Record<LinearLayout, Readonly<Record<ProjectionName, readonly LinearName[]>>>> = {
  separate: { qkv: ['q', 'k', 'v'], convIn: [], o: ['o'], convOut: [], gate: ['gate'], up: ['up'], down: ['down'] },
  fused: { qkv: ['qkv'], convIn: [], o: ['o'], convOut: [], gate: ['gateUp'], up: ['gateUp'], down: ['down'] },
  convolution: {
    qkv: ['q', 'k', 'v'],
    convIn: ['convIn'],
    o: ['out'],
    convOut: ['convOut'],
    gate: ['w1'],
    up: ['w3'],
    down: ['w2'],
  },
  delta: {
    qkv: ['q', 'k', 'v'],
    convIn: ['deltaQkv', 'deltaZ', 'deltaB', 'deltaA'],
    o: ['o'],
    convOut: ['deltaOut'],
    gate: ['gate'],
    up: ['up'],
    down: ['down'],
  },
};

const LAYOUTS = Object.keys(LINEARS) as LinearLayout[];

function layoutOf({ hasFusedLinears, convolution, deltaNet }: LayoutTraits): LinearLayout {
  if (convolution !== null) return 'convolution';
  if (deltaNet !== null) return 'delta';
  return hasFusedLinears ? 'fused' : 'separate';
}

type LayoutTraits = Pick<Architecture, 'hasFusedLinears' | 'convolution' | 'deltaNet'>;

export const INPUTS: Readonly<Record<InputName, readonly ProjectionName[]>> = {
  attention: ['qkv'],
  convIn: ['convIn'],
  o: ['o'],
  convOut: ['convOut'],
  feedForward: ['gate', 'up'],
  down: ['down'],
};

export const PROJECTION_NAMES = Object.keys(LINEARS.separate) as ProjectionName[];
export const INPUT_NAMES = Object.keys(INPUTS) as InputName[];

/** A part of each product that a block has: of attention or what it has instead, and without experts or next to them of a feed-forward. */
export type ByProjection<Part> = Readonly<Partial<Record<ProjectionName, Part>>>;

/** Inputs of a block's linear layers, in its order. */
export const inputsIn = (architecture: Architecture, layer: number): readonly InputName[] => [
  ...(hasAttention(architecture, layer) ? (['attention', 'o'] as const) : (['convIn', 'convOut'] as const)),
  ...(expertsIn(architecture, layer)?.hasSharedFeedForward !== false ? (['feedForward', 'down'] as const) : []),
];

export const projectionsIn = (architecture: Architecture, layer: number): readonly ProjectionName[] =>
  inputsIn(architecture, layer).flatMap((input) => INPUTS[input]);

/** Those that at least one block has. */
export const projectionsOf = (architecture: Architecture): readonly ProjectionName[] => {
  const layers = Array.from({ length: architecture.numLayers }, (_, layer) => projectionsIn(architecture, layer));
  return PROJECTION_NAMES.filter((name) => layers.some((names) => names.includes(name)));
};

/** Product whose result is added to a block's input: of the outputs of attention, or of what it has instead. */
export const outputProjection = (architecture: Architecture, layer: number): 'o' | 'convOut' =>
  hasAttention(architecture, layer) ? 'o' : 'convOut';

export const byProjection = <Part>(
  names: readonly ProjectionName[],
  partOf: (projection: ProjectionName) => Part,
): ByProjection<Part> => Object.fromEntries(names.map((name) => [name, partOf(name)])) as ByProjection<Part>;

/** Rows of a projection, stacked. */
export function projectionParts(sizes: BlockSizes & LayoutTraits, projection: ProjectionName): LinearRows[] {
  return LINEARS[layoutOf(sizes)][projection].map((linear) => {
    const { out } = linearDims(sizes, linear);
    if (linear !== 'gateUp') return { linear, firstRow: 0, numRows: out };
    // The gate comes first.
    return { linear, firstRow: projection === 'gate' ? 0 : out / 2, numRows: out / 2 };
  });
}

export function projectionDims(architecture: Architecture, projection: ProjectionName): { in: number; out: number } {
  const parts = projectionParts(architecture, projection);
  const { in: width } = linearDims(architecture, parts[0]!.linear);
  return { in: width, out: parts.reduce((sum, { numRows }) => sum + numRows, 0) };
}

/** Ordered like their rows in the joint `a`. */
export function adaptedLinears(input: InputName, lora: LoraConfig): LinearName[] {
  const names = INPUTS[input].flatMap((projection) => LAYOUTS.flatMap((layout) => LINEARS[layout][projection]));
  return [...new Set(names)].filter((linear) => lora.targets.includes(linear));
}

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
