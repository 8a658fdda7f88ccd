import type { OnnxTensor } from '@trainyard/native';
import type { Feeds } from '../graphs/constant-graph.ts';
import type { BlockRows } from './block-rows.ts';

/** Rotated queries and keys, and values, of a batch: where they go. */
export interface Attended {
  readonly q: OnnxTensor;
  readonly k: OnnxTensor;
  readonly v: OnnxTensor;
}

/** The parts of a block between which attention and adapters come in. The products of each are added to its sums, which may be overwritten unless they are plain. */
export interface BlockSteps {
  /** Sums that begin with a residual or with 0 need not be written anew. */
  readonly takesPlainSums: boolean;
  /** Rows that are computed where so many are wanted: memory behind the rows is written up to there. */
  computedRows(numRows: number): number;
  /** h → q, k, v. @param rope cos and sin */
  attention(layer: number, rows: BlockRows, rope: Feeds, into: Attended): void;
  /** o → x2, h */
  output(layer: number, rows: BlockRows): void;
  /** h → activated */
  feedForward(layer: number, rows: BlockRows): void;
  /** activated → x, and h of the next block */
  down(layer: number, rows: BlockRows): void;
  /** @param hidden [rows, H] @param logits [rows, V], written */
  head(hidden: Float32Array, logits: Float32Array): void;
  /** Gives up what it has besides the weights. */
  close(): void;
}
