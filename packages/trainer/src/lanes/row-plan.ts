import {
  type Architecture,
  int64,
  expertParameters,
  expertsIn,
  type LayerKind,
  linearDims,
  storedLinears,
  type RopeTables,
  ropeTables,
  type Tensor,
} from '@trainyard/transformer';
import type { PackedRow } from '../model/policy-model.ts';
import type { QueryBlock, RowTree } from '../model/query-blocks.ts';
import { queryBlocks, subtreeEnds } from '../model/query-blocks.ts';
import type { TokenRange } from '../model/token-range.ts';
import { clipped, equalPieces, ranges, spans } from '../model/token-range.ts';

/** Parts per kind of layer; kinds with the same part share one object. */
type ByLayerKind<Part> = Readonly<Record<LayerKind, Part>>;

/** Pieces between which the cores may change hands. */
export interface LaneShare {
  readonly tables: ByLayerKind<RopeTables>;
  /** Tokens before `start` belong to lower lanes. */
  readonly range: TokenRange;
  readonly tokens: readonly TokenRange[];
  readonly queries: ByLayerKind<readonly QueryBlock[]>;
  /** Ranges of the last layer, computed only for tokens that predict a trained one. */
  readonly sourceTokens: readonly TokenRange[];
  readonly sourceQueries: ByLayerKind<readonly QueryBlock[]>;
  /** Tree of the whole row; null if all layers have attention. */
  readonly tree: RowTree | null;
  readonly vocabulary: readonly { readonly targets: TokenRange; readonly columns: TokenRange }[];
  /** Trained tokens whose parts the lane joins. */
  readonly targets: readonly TokenRange[];
}

export interface RowPlan {
  readonly numTokens: number;
  readonly lanes: readonly LaneShare[];
}

export interface RowPlanOptions {
  /** Bounds temporaries and time of a token-wise graph. */
  readonly chunkTokens: number;
  /** More waste less on launches and more on masked scores. */
  readonly queryBlockTokens: number;
  /**
   * Parts of the vocabulary are the same for any number of trained tokens, so each is laid out once. Default
   * false.
   */
  readonly hasFixedVocabularyParts?: boolean;
}

// Floating-point operations of a piece: 40 ms of one thread at 100 GF/s.
const PIECE_FLOPS = 4e9;
// With fewer rows the processor waits for weights.
const MIN_PIECE_TOKENS = 32;
// Attention's forward and backward are seven products (forward two) at 55 GF/s; linear layers' are two at 85.
const ATTENTION_COST = 2.7;
// Maximum gap between source tokens in one piece.
const MAX_SPAN_GAP = 32;
// Trained tokens per run of the head; more do not make it faster.
const HEAD_ROWS = 256;
// Size of one [rows, C] matrix, so that later operations find the logits in the cache.
const MATRIX_BYTES = 4 * 1024 ** 2;
const MIN_COLUMNS = 512;
/** Numbers of a part of the vocabulary: bounds the memory of streamed ones if few tokens are trained. */
export const MAX_PART_VALUES = 2 ** 23;

export function planRow(
  row: PackedRow,
  { architecture, ropeFactors }: { architecture: Architecture; ropeFactors: Float32Array | null },
  options: RowPlanOptions,
  numLanes: number,
): RowPlan {
  const numTokens = row.tokenIds.length;
  const tables = ropeTables(row.positions, architecture, ropeFactors);
  const { numHeads, headSize, numLayers, convolution, deltaNet } = architecture;
  const layerFlops = meanLayerFlops(architecture);
  const chunkTokens = Math.min(options.chunkTokens, Math.max(MIN_PIECE_TOKENS, Math.floor(PIECE_FLOPS / layerFlops)));
  const pairFlops = 4 * numHeads * headSize;
  const withoutAttention = (convolution ?? deltaNet)?.layers.length ?? 0;
  const attentionPart = 1 - withoutAttention / numLayers;
  const costs = Float64Array.from(
    row.positions,
    (position) => layerFlops + attentionPart * ATTENTION_COST * pairFlops * (position + options.queryBlockTokens / 2),
  );
  const ends = subtreeEnds(row.parents);
  // Backward takes about twice as long as forward.
  const blockTokens = (token: number) => {
    const most = Math.floor(PIECE_FLOPS / (2 * ATTENTION_COST * pairFlops * (row.positions[token]! + 1)));
    return Math.min(options.queryBlockTokens, Math.max(MIN_PIECE_TOKENS, most));
  };
  const { positions } = row;
  const tree = { parents: row.parents, ends };
  const window = architecture.window === null ? null : { tokens: architecture.window.tokens, positions };
  const blocksOf = (some: readonly TokenRange[]) => {
    const full = some.flatMap((range) => queryBlocks(tree, range, blockTokens));
    const windowed = window === null ? full : some.flatMap((range) => queryBlocks(tree, range, blockTokens, window));
    return { full, windowed, unrotated: full };
  };
  const sources = spans(row.sources, MAX_SPAN_GAP);
  const targets = equalPieces(row.targets.length, numLanes);
  const { hasFixedVocabularyParts: hasFixedParts = false } = options;
  const vocabulary = vocabularyParts(row.targets.length, architecture, numLanes, hasFixedParts);
  const lanes = laneRanges(costs, numLanes).map((range, lane): LaneShare => {
    const own = clipped(sources, range);
    const queries = blocksOf([range]);
    const isAll = own.length === 1 && own[0]!.start === range.start && own[0]!.end === range.end;
    return {
      tables,
      range,
      tokens: ranges(range, chunkTokens),
      queries,
      sourceTokens: own.flatMap((span) => ranges(span, chunkTokens)),
      sourceQueries: isAll ? queries : blocksOf(own),
      tree: withoutAttention === 0 ? null : tree,
      vocabulary: vocabulary[lane]!,
      targets: ranges(targets[lane]!, HEAD_ROWS),
    };
  });
  return { numTokens, lanes };
}

export interface AttentionBlock extends QueryBlock {
  /** [K] */
  readonly keyIndices: Tensor;
}

export const attentionBlock = (block: QueryBlock): AttentionBlock => ({
  ...block,
  keyIndices: int64(block.keys, [block.keys.length]),
});

/** Products of a token with the weights of a layer, on average. */
function meanLayerFlops(architecture: Architecture): number {
  const { numLayers, hiddenSize } = architecture;
  let parameters = 0;
  for (let layer = 0; layer < numLayers; layer++) {
    for (const linear of storedLinears(architecture, layer)) parameters += productOf(linearDims(architecture, linear));
    const experts = expertsIn(architecture, layer);
    if (experts !== null) parameters += hiddenSize * experts.count + experts.used * expertParameters(architecture);
  }
  return (2 * parameters) / numLayers;
}

const productOf = (dims: { readonly in: number; readonly out: number }) => dims.in * dims.out;

/** Equal shares of the cost. */
function laneRanges(costs: Float64Array, numLanes: number): TokenRange[] {
  const total = costs.reduce((sum, cost) => sum + cost, 0);
  const lanes: TokenRange[] = [];
  let token = 0;
  let spent = 0;
  for (let lane = 1; lane <= numLanes; lane++) {
    const start = token;
    while (token < costs.length && (lane === numLanes || spent + costs[token]! / 2 < (lane * total) / numLanes))
      spent += costs[token++]!;
    lanes.push({ start, end: token });
  }
  return lanes;
}

/** Lanes get equal numbers of parts if there are enough columns. */
function vocabularyParts(
  numTargets: number,
  { vocabSize, hiddenSize }: Architecture,
  numLanes: number,
  hasFixedParts: boolean,
): LaneShare['vocabulary'][] {
  const lanes = Array.from({ length: numLanes }, (): LaneShare['vocabulary'][number][] => []);
  for (const targets of ranges({ start: 0, end: numTargets }, HEAD_ROWS)) {
    const numRows = hasFixedParts ? HEAD_ROWS : targets.end - targets.start;
    const fitting = Math.min(Math.floor(MATRIX_BYTES / (4 * numRows)), Math.floor(MAX_PART_VALUES / hiddenSize));
    const most = Math.max(MIN_COLUMNS, fitting);
    const numParts = numLanes * Math.ceil(vocabSize / (numLanes * most));
    // An odd number of cache lines: rows a multiple of 4 KiB apart map to the same few places of the cache, which
    // cost a third of the speed.
    const width = 16 * (2 * Math.ceil(Math.ceil(vocabSize / numParts) / 32) + 1);
    for (let part = 0; part * width < vocabSize; part++) {
      const columns = { start: part * width, end: Math.min(vocabSize, (part + 1) * width) };
      lanes[part % numLanes]!.push({ targets, columns });
    }
  }
  return lanes;
}
