import {
  type Architecture,
  EXPERT_MATRICES,
  EXPERT_TENSORS,
  expertDims,
  expertsIn,
  ROUTER_TENSOR,
} from '@trainyard/transformer';

/** Names of the router and the experts of a layer in a folder, after `model.layers.N.`. */
export interface ExpertLayout {
  readonly router: string;
  /** Null: each expert has a tensor per matrix, `mlp.experts.E.gate_proj.weight`. */
  readonly stacked: StackedExperts | null;
}

/** All experts of a layer in one tensor for gate and up, and one for down. */
interface StackedExperts {
  /** [E, 2 · F, H]; rows of the gate come first */
  readonly gateUp: string;
  /** [E, H, F] */
  readonly down: string;
}

export const QWEN3_EXPERTS: readonly ExpertLayout[] = [
  { router: 'mlp.gate.weight', stacked: null },
  // transformers 5 holds them so, and some tools save them as they are held.
  { router: 'mlp.gate.weight', stacked: { gateUp: 'mlp.experts.gate_up_proj', down: 'mlp.experts.down_proj' } },
];

/** Some rows of each matrix of a tensor. */
export interface MatrixRows {
  readonly numMatrices: number;
  /** Rows of a matrix. */
  readonly of: number;
  readonly first: number;
  readonly count: number;
}

/** Writes the rows of all matrices one after another. @param from [matrices, of, columns] @param into [matrices, count, columns] */
export function takeRows(rows: MatrixRows, from: Float32Array, into: Float32Array): void {
  eachMatrix(rows, from, into, (own, target) => target.set(own));
}

/** Inverse of {@link takeRows}: writes them to their places. */
export function putRows(rows: MatrixRows, from: Float32Array, into: Float32Array): void {
  eachMatrix(rows, into, from, (own, source) => own.set(source));
}

function eachMatrix(
  { numMatrices, of, first, count }: MatrixRows,
  whole: Float32Array,
  rows: Float32Array,
  visit: (own: Float32Array, rows: Float32Array) => void,
): void {
  const columns = whole.length / (numMatrices * of);
  for (let matrix = 0; matrix < numMatrices; matrix++) {
    const start = (matrix * of + first) * columns;
    const own = whole.subarray(start, start + count * columns);
    visit(own, rows.subarray(matrix * count * columns, (matrix + 1) * count * columns));
  }
}

/** Tensors of a folder that have the values of one of the file. */
export interface TensorSources {
  /** Several are stacked along the first axis. */
  readonly names: readonly string[];
  /** Row-major sizes of each. */
  readonly dims: readonly number[];
  /** Null: all rows. */
  readonly rows: MatrixRows | null;
}

/** @param part of a block, in GGUF @returns null for tensors of other parts */
export function expertSources(
  architecture: Architecture,
  layout: ExpertLayout,
  { layer, part }: { readonly layer: number; readonly part: string },
): TensorSources | null {
  const { experts, hiddenSize } = architecture;
  if (experts === null) return null;
  const { count } = experts;
  const path = (name: string) => `model.layers.${layer}.${name}`;
  if (part === ROUTER_TENSOR) return { names: [path(layout.router)], dims: [count, hiddenSize], rows: null };
  const matrix = EXPERT_MATRICES.find((name) => EXPERT_TENSORS[name] === part);
  if (matrix === undefined) return null;
  const { in: columns, out } = expertDims(architecture, matrix);
  if (layout.stacked === null) {
    const names = Array.from({ length: count }, (_, expert) => path(`mlp.experts.${expert}.${matrix}_proj.weight`));
    return { names, dims: [out, columns], rows: null };
  }
  const { gateUp, down } = layout.stacked;
  if (matrix === 'down') return { names: [path(down)], dims: [count, out, columns], rows: null };
  return {
    names: [path(gateUp)],
    dims: [count, 2 * out, columns],
    rows: { numMatrices: count, of: 2 * out, first: matrix === 'gate' ? 0 : out, count: out },
  };
}

/** Layout of a folder: the first one whose router and experts it has; without any, the first of the family. */
export function storedLayout(
  layouts: readonly ExpertLayout[],
  isStored: (name: string) => boolean,
  architecture: Architecture,
): ExpertLayout | undefined {
  const layer = Array.from({ length: architecture.numLayers }, (_, at) => at).find(
    (at) => expertsIn(architecture, at) !== null,
  );
  const stored = layouts.find((layout) =>
    [ROUTER_TENSOR, EXPERT_TENSORS.down].every((part) => {
      const sources = layer === undefined ? null : expertSources(architecture, layout, { layer, part });
      return sources !== null && isStored(sources.names[0]!);
    }),
  );
  return stored ?? layouts[0];
}
