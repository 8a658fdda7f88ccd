import {
  type Architecture,
  EXPERT_MATRICES,
  EXPERT_TENSORS,
  expertDims,
  type ExpertMatrix,
  expertsIn,
  GGUF_LINEARS,
  linearDims,
  ROUTER_TENSOR,
} from '@trainyard/transformer';

/** Names of the tensors of a feed-forward in a folder, after `model.layers.N.`, where they are not one per matrix of the file. */
export interface FeedForwardLayout {
  /** Router and experts; null: each layer is dense. */
  readonly experts: {
    readonly router: string;
    /** All experts of a layer; null: each has a tensor per matrix, `mlp.experts.E.gate_proj.weight`. */
    readonly stacked: FusedFeedForward | null;
  } | null;
  /** Dense feed-forward; null: a tensor per matrix, `mlp.gate_proj.weight`. */
  readonly dense: FusedFeedForward | null;
}

/** Sizes of one feed-forward, or with those of all experts before them. */
interface FusedFeedForward {
  /** [2 · F, H]; rows of the gate come first */
  readonly gateUp: string;
  /** [H, F] */
  readonly down: string;
}

/** As transformers 5 holds experts, and some tools save them. */
const STACKED: FusedFeedForward = { gateUp: 'experts.gate_up_proj', down: 'experts.down_proj' };

const inModule = (module: string, { gateUp, down }: FusedFeedForward): FusedFeedForward => ({
  gateUp: `${module}.${gateUp}`,
  down: `${module}.${down}`,
});

const FUSED_LINEARS: FusedFeedForward = { gateUp: 'input_linear.weight', down: 'output_linear.weight' };

export const QWEN3_LAYOUTS: readonly FeedForwardLayout[] = [
  { experts: { router: 'mlp.gate.weight', stacked: null }, dense: null },
  { experts: { router: 'mlp.gate.weight', stacked: inModule('mlp', STACKED) }, dense: null },
];

const GRANITE_EXPERTS = 'block_sparse_moe';

export const GRANITE_LAYOUTS: readonly FeedForwardLayout[] = (
  [
    ['router.layer.weight', FUSED_LINEARS],
    ['router.weight', STACKED],
  ] as const
).map(([router, stacked]) => ({
  experts: { router: `${GRANITE_EXPERTS}.${router}`, stacked: inModule(GRANITE_EXPERTS, stacked) },
  dense: null,
}));

/** Granite 4 without experts. */
export const GRANITE_HYBRID_LAYOUTS: readonly FeedForwardLayout[] = [
  { experts: null, dense: inModule('shared_mlp', FUSED_LINEARS) },
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

/** @param part of a block, in GGUF @returns null for tensors with one of their own */
export function feedForwardSources(
  architecture: Architecture,
  { experts: ofExperts, dense }: FeedForwardLayout,
  { layer, part }: { readonly layer: number; readonly part: string },
): TensorSources | null {
  const { experts, hiddenSize } = architecture;
  const path = (name: string) => `model.layers.${layer}.${name}`;
  if (part === ROUTER_TENSOR && experts !== null && ofExperts !== null)
    return { names: [path(ofExperts.router)], dims: [experts.count, hiddenSize], rows: null };
  for (const matrix of EXPERT_MATRICES) {
    if (part === `${GGUF_LINEARS[matrix]}.weight` && dense !== null)
      return fusedSources(dense, matrix, { ...linearDims(architecture, matrix), count: null, path });
    if (part !== EXPERT_TENSORS[matrix] || experts === null || ofExperts === null) continue;
    const { count } = experts;
    const dims = expertDims(architecture, matrix);
    if (ofExperts.stacked !== null) return fusedSources(ofExperts.stacked, matrix, { ...dims, count, path });
    const names = Array.from({ length: count }, (_, expert) => path(`mlp.experts.${expert}.${matrix}_proj.weight`));
    return { names, dims: [dims.out, dims.in], rows: null };
  }
  return null;
}

function fusedSources(
  { gateUp, down }: FusedFeedForward,
  matrix: ExpertMatrix,
  sizes: {
    readonly out: number;
    readonly in: number;
    /** Null: one feed-forward. */
    readonly count: number | null;
    readonly path: (name: string) => string;
  },
): TensorSources {
  const { out, in: columns, count, path } = sizes;
  const leading = count === null ? [] : [count];
  if (matrix === 'down') return { names: [path(down)], dims: [...leading, out, columns], rows: null };
  const rows = { numMatrices: count ?? 1, of: 2 * out, first: matrix === 'gate' ? 0 : out, count: out };
  return { names: [path(gateUp)], dims: [...leading, 2 * out, columns], rows };
}

/** Layout of a folder: the first one whose router and experts it has; without any, the first of the family. */
export function storedLayout(
  layouts: readonly FeedForwardLayout[],
  isStored: (name: string) => boolean,
  architecture: Architecture,
): FeedForwardLayout | undefined {
  const layer = Array.from({ length: architecture.numLayers }, (_, at) => at).find(
    (at) => expertsIn(architecture, at) !== null,
  );
  const stored = layouts.find((layout) =>
    [ROUTER_TENSOR, EXPERT_TENSORS.down].every((part) => {
      const sources = layer === undefined ? null : feedForwardSources(architecture, layout, { layer, part });
      return sources !== null && isStored(sources.names[0]!);
    }),
  );
  return stored ?? layouts[0];
}
