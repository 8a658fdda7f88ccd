import {
  type Architecture,
  EXPERT_BIASES,
  EXPERT_MATRICES,
  EXPERT_TENSORS,
  expertDims,
  type ExpertMatrix,
  expertsIn,
  ggufLinear,
  linearDims,
  ROUTER_BIAS,
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

/** Sizes of one feed-forward; those of all experts have their number before them. */
interface FusedFeedForward {
  readonly gateUp: string;
  readonly down: string;
  /**
   * `halves`: gateUp [2 · F, H], rows of the gate first; down [H, F]. `turned`: gateUp [H, 2 · F], columns of gate and up
   * in turns; down [F, H]. `mxfp4`: gateUp [2 · F, H], rows in turns, and down [H, F], in blocks of 32 values with a scale
   * each; `_blocks` and `_scales` follow the names.
   */
  readonly form: 'halves' | 'turned' | 'mxfp4';
}

/** Values of a block of MXFP4. */
export const MXFP4_VALUES = 32;

/** As transformers 5 holds experts, and some tools save them. */
const STACKED: FusedFeedForward = { gateUp: 'experts.gate_up_proj', down: 'experts.down_proj', form: 'halves' };

const inModule = (module: string, { gateUp, down, ...rest }: FusedFeedForward): FusedFeedForward => ({
  ...rest,
  gateUp: `${module}.${gateUp}`,
  down: `${module}.${down}`,
});

const FUSED_LINEARS: FusedFeedForward = {
  gateUp: 'input_linear.weight',
  down: 'output_linear.weight',
  form: 'halves',
};

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

export const GPT_OSS_LAYOUTS: readonly FeedForwardLayout[] = (['turned', 'mxfp4'] as const).map((form) => ({
  experts: { router: 'mlp.router.weight', stacked: { ...inModule('mlp', STACKED), form } },
  dense: null,
}));

export const GRANITE_SHARED_LAYOUTS: readonly FeedForwardLayout[] = GRANITE_LAYOUTS.map(({ experts }) => ({
  experts,
  dense: inModule('shared_mlp', FUSED_LINEARS),
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
  /** Distance to the next one. */
  readonly step: 1 | 2;
  readonly count: number;
  /** True if they are columns of the tensor. */
  readonly areColumns: boolean;
}

type Numbers = Float32Array | Uint32Array | Uint16Array | Uint8Array;

/** Writes the rows of all matrices one after another. @param from [matrices, of, columns] @param into [matrices, count, columns] */
export function takeRows<Values extends Numbers>(rows: MatrixRows, from: Values, into: Values): void {
  eachRow(rows, from.length, ({ at, stride, place, columns }) => {
    if (stride === 1) into.set(from.subarray(at, at + columns), place);
    else for (let column = 0; column < columns; column++) into[place + column] = from[at + column * stride]!;
  });
}

/** Inverse of {@link takeRows}: writes them to their places. */
export function putRows(rows: MatrixRows, from: Float32Array, into: Float32Array): void {
  eachRow(rows, into.length, ({ at, stride, place, columns }) => {
    for (let column = 0; column < columns; column++) into[at + column * stride] = from[place + column]!;
  });
}

interface RowPlace {
  /** First value in the tensor, and the distance to the next one. */
  readonly at: number;
  readonly stride: number;
  /** First value among the rows. */
  readonly place: number;
  readonly columns: number;
}

function eachRow(
  { numMatrices, of, first, step, count, areColumns }: MatrixRows,
  numValues: number,
  visit: (row: RowPlace) => void,
): void {
  const columns = numValues / (numMatrices * of);
  for (let matrix = 0; matrix < numMatrices; matrix++)
    for (let i = 0; i < count; i++) {
      const [start, row] = [matrix * of * columns, first + i * step];
      const own = areColumns ? { at: start + row, stride: of } : { at: start + row * columns, stride: 1 };
      visit({ ...own, place: (matrix * count + i) * columns, columns });
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
  /** Scales of the blocks of the one tensor, in bytes; null: it has numbers. */
  readonly scales: { readonly name: string; readonly dims: readonly number[] } | null;
}

/** @param dims row-major */
export const plainSources = (name: string, dims: readonly number[]): TensorSources => ({
  names: [name],
  dims,
  rows: null,
  scales: null,
});

/** @param part of a block, in GGUF @returns null for tensors with one of their own */
export function feedForwardSources(
  architecture: Architecture,
  { experts: ofExperts, dense }: FeedForwardLayout,
  { layer, part }: { readonly layer: number; readonly part: string },
): TensorSources | null {
  const { experts, hiddenSize } = architecture;
  const path = (name: string) => `model.layers.${layer}.${name}`;
  if (part === ROUTER_TENSOR && experts !== null && ofExperts !== null)
    return plainSources(path(ofExperts.router), [experts.count, hiddenSize]);
  if (part === ROUTER_BIAS && experts !== null && ofExperts !== null)
    return plainSources(path(ofExperts.router.replace(/weight$/, 'bias')), [experts.count]);
  for (const matrix of EXPERT_MATRICES) {
    if (part === `${ggufLinear(architecture, layer, matrix)}.weight` && dense !== null)
      return fusedSources(dense, matrix, { ...linearDims(architecture, matrix), count: null, path });
    if (experts === null || ofExperts === null) continue;
    if (part === EXPERT_BIASES[matrix] && ofExperts.stacked !== null)
      return biasSources(ofExperts.stacked, matrix, {
        out: expertDims(architecture, matrix).out,
        count: experts.count,
        path,
      });
    if (part !== EXPERT_TENSORS[matrix]) continue;
    const { count } = experts;
    const dims = expertDims(architecture, matrix);
    if (ofExperts.stacked !== null) return fusedSources(ofExperts.stacked, matrix, { ...dims, count, path });
    const names = Array.from({ length: count }, (_, expert) => path(`mlp.experts.${expert}.${matrix}_proj.weight`));
    return { names, dims: [dims.out, dims.in], rows: null, scales: null };
  }
  return null;
}

interface FusedSizes {
  readonly out: number;
  /** Null: one feed-forward. */
  readonly count: number | null;
  readonly path: (name: string) => string;
}

/** Rows of a matrix among those of gate and up; null for down. */
function fusedRows(
  form: FusedFeedForward['form'],
  matrix: ExpertMatrix,
  { out, count }: FusedSizes,
): MatrixRows | null {
  const areColumns = form === 'turned';
  const numMatrices = count ?? 1;
  if (matrix === 'down') return areColumns ? { numMatrices, of: out, first: 0, step: 1, count: out, areColumns } : null;
  const isUp = matrix === 'up';
  return form === 'halves'
    ? { numMatrices, of: 2 * out, first: isUp ? out : 0, step: 1, count: out, areColumns }
    : { numMatrices, of: 2 * out, first: isUp ? 1 : 0, step: 2, count: out, areColumns };
}

function fusedSources(
  { gateUp, down, form }: FusedFeedForward,
  matrix: ExpertMatrix,
  sizes: FusedSizes & { readonly in: number },
): TensorSources {
  const { in: columns, count, path } = sizes;
  const name = path(matrix === 'down' ? down : gateUp);
  const rows = fusedRows(form, matrix, sizes);
  const leading = count === null ? [] : [count];
  const numRows = rows?.of ?? sizes.out;
  if (form === 'mxfp4') {
    const dims = [...leading, numRows, columns / MXFP4_VALUES];
    return {
      names: [`${name}_blocks`],
      dims: [...dims, MXFP4_VALUES / 2],
      rows,
      scales: { name: `${name}_scales`, dims },
    };
  }
  const dims = form === 'turned' ? [columns, numRows] : [numRows, columns];
  return { names: [name], dims: [...leading, ...dims], rows, scales: null };
}

/** [E, 2 · F] of gate and up in turns, and [E, H] of down */
function biasSources({ gateUp, down }: FusedFeedForward, matrix: ExpertMatrix, sizes: FusedSizes): TensorSources {
  const rows = fusedRows('mxfp4', matrix, sizes);
  return {
    names: [`${sizes.path(matrix === 'down' ? down : gateUp)}_bias`],
    dims: [sizes.count!, rows?.of ?? sizes.out],
    rows,
    scales: null,
  };
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
