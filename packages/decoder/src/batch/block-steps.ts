import type { OnnxTensor } from '@trainyard/native';
import type { Feeds } from '../graphs/constant-graph.ts';
import type { BlockRows, Rows } from './block-rows.ts';

export interface Attended {
  readonly q: OnnxTensor;
  readonly k: OnnxTensor;
  readonly v: OnnxTensor;
  /** Only if the model has one. */
  readonly outputGate?: OnnxTensor;
}

/**
 * Parts of a block between attention and adapters. Products are added to sums, which may be overwritten unless
 * plain.
 */
export interface BlockSteps {
  /** True if sums that start with a residual or 0 need not be rewritten. */
  readonly takesPlainSums: boolean;
  /** Rows that are computed if `numRows` are wanted; the memory after the rows is written up to there. */
  computedRows(numRows: number): number;
  /** h → q, k, v, and the output gate if there is one. @param rope cos and sin */
  attention(layer: number, rows: BlockRows, rope: Feeds, into: Attended): void;
  /** h → b, c and x of a convolution [rows, 3H], or the products of a gated delta net; valid until the next step */
  convolutionInput(layer: number, rows: BlockRows): Rows;
  /** mixed → x2, h */
  output(layer: number, rows: BlockRows): void;
  /** h → activated */
  feedForward(layer: number, rows: BlockRows): void;
  /** activated → x, and h of the next block */
  down(layer: number, rows: BlockRows): void;
  /** @param hidden [rows, H] @param logits [rows, V], written */
  head(hidden: Float32Array, logits: Float32Array): void;
  /** Releases everything except the weights. */
  close(): void;
}
