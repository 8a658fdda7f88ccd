import type { Tensor } from 'onnxruntime-common';
import { int64 } from '../graph/session.ts';
import type { Architecture } from './architecture.ts';
import type { PackedRow } from './policy-model.ts';
import type { QueryBlock } from './query-blocks.ts';
import { queryBlocks } from './query-blocks.ts';
import { ropeTables } from './rope.ts';
import type { TokenRange } from './token-range.ts';
import { equalPieces, ranges } from './token-range.ts';

/** [T, D/2] each. */
export interface RowTables {
  readonly cos: Float32Array;
  readonly sin: Float32Array;
}

/** What one lane computes of a row, by round: a round is what all lanes do before the cores may change hands. */
export interface LaneShare extends RowTables {
  /** Tokens of token-wise graphs. */
  readonly chunks: readonly TokenRange[];
  readonly attention: readonly (readonly QueryBlock[])[];
  /** Trained tokens and the part of the vocabulary. */
  readonly head: readonly { readonly range: TokenRange; readonly part: number }[];
}

/** What every layer needs to know about a row, computed once. */
export interface RowPlan {
  readonly numTokens: number;
  readonly lanes: readonly LaneShare[];
  readonly numRounds: Readonly<Record<'chunks' | 'attention' | 'head', number>>;
}

export interface RowPlanOptions {
  /** Tokens a run of a token-wise graph takes: bounds temporaries and the time of one run. */
  readonly chunkTokens: number;
  /** Queries an attention run takes: more waste less on launches and more on masked scores. */
  readonly queryBlockTokens: number;
}

// A round of attention on one lane: 20 ms forward, 50 ms backward at 100 GF/s.
const ROUND_FLOPS = 2e9;
// Trained tokens of a run of the head: more do not make it faster.
const HEAD_ROWS = 256;

// Of one [rows, C] matrix: what is computed from the logits then finds them in the cache.
const MATRIX_BYTES = 4 * 1024 ** 2;
const MIN_PART = 512;

/** Parts of the vocabulary in which a run of the head takes `numRows` trained tokens. */
export const vocabularyParts = (vocabSize: number, numRows: number): TokenRange[] =>
  ranges(vocabSize, Math.max(MIN_PART, Math.floor(MATRIX_BYTES / (4 * Math.max(1, numRows)))));

export function planRow(
  row: PackedRow,
  architecture: Architecture,
  ropeFactors: Float32Array | null,
  options: RowPlanOptions,
  numLanes: number,
): RowPlan {
  const numTokens = row.tokenIds.length;
  const tables = ropeTables(row.positions, architecture, ropeFactors);
  const chunks = dealt(laneRanges(numTokens, options.chunkTokens, numLanes), numLanes);
  const attention = balanced(queryBlocks(row, options.queryBlockTokens), architecture, numLanes);
  const heads = dealt(laneRanges(row.targets.length, HEAD_ROWS, numLanes), numLanes).map((own) =>
    own.flatMap((range) =>
      vocabularyParts(architecture.vocabSize, range.end - range.start).map((_, part) => ({ range, part })),
    ),
  );
  const longest = (shares: readonly (readonly unknown[])[]) => Math.max(...shares.map((share) => share.length));
  return {
    numTokens,
    lanes: chunks.map((own, lane) => ({ ...tables, chunks: own, attention: attention[lane]!, head: heads[lane]! })),
    numRounds: { chunks: longest(chunks), attention: longest(attention), head: longest(heads) },
  };
}

export interface AttentionBlock extends QueryBlock {
  /** The index inputs of the attention graph. */
  readonly feeds: Readonly<Record<'queries' | 'keys' | 'ends', Tensor>>;
}

export const attentionBlocks = (share: LaneShare): AttentionBlock[][] =>
  share.attention.map((blocks) =>
    blocks.map((block) => {
      const { start, end, keys, ends } = block;
      const queries = Int32Array.from({ length: end - start }, (_, i) => start + i);
      const feeds = {
        queries: int64(queries, [queries.length, 1]),
        keys: int64(keys, [keys.length]),
        ends: int64(ends, [1, ends.length]),
      };
      return { ...block, feeds };
    }),
  );

/** Equal pieces of at most `size`, as many for each lane. */
const laneRanges = (length: number, size: number, numLanes: number): TokenRange[] =>
  equalPieces(length, numLanes * Math.ceil(length / (size * numLanes))).filter(({ start, end }) => end > start);

/** Deals pieces to lanes in turn. */
const dealt = <Piece>(all: readonly Piece[], numLanes: number): Piece[][] =>
  Array.from({ length: numLanes }, (_, lane) => all.filter((_piece, index) => index % numLanes === lane));

/** Largest first to the lane with the least work, then cut into rounds. */
function balanced(
  blocks: readonly QueryBlock[],
  { numHeads, headSize }: Architecture,
  numLanes: number,
): QueryBlock[][][] {
  const flops = ({ start, end, keys }: QueryBlock) => 4 * (end - start) * keys.length * numHeads * headSize;
  const lanes = Array.from({ length: numLanes }, () => ({ total: 0, blocks: [] as QueryBlock[] }));
  for (const block of blocks.toSorted((a, b) => flops(b) - flops(a))) {
    const least = lanes.reduce((best, lane) => (lane.total < best.total ? lane : best));
    least.total += flops(block);
    least.blocks.push(block);
  }
  return lanes.map((lane) => {
    const rounds: QueryBlock[][] = [];
    let room = 0;
    for (const block of lane.blocks) {
      if (room < flops(block)) {
        rounds.push([]);
        room = ROUND_FLOPS;
      }
      rounds.at(-1)!.push(block);
      room -= flops(block);
    }
    return rounds;
  });
}
