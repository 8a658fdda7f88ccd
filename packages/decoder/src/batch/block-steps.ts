import type { OnnxTensor } from '@trainyard/native';
import { sumName } from '@trainyard/transformer';
import type { ProjectionName } from '@trainyard/transformer';
import type { Feeds } from '../graphs/constant-graph.ts';
import type { DecoderGraphs } from '../graphs/decoder-graphs.ts';
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
  /** Its products are the team's, and follow each other so fast that threads look out for the next one. */
  readonly keepsTeamAlert: boolean;
  /** Rows that are computed where so many are wanted: memory behind the rows is written up to there. */
  computedRows(numRows: number): number;
  /** Before the first block: x → h. */
  begin(rows: BlockRows): void;
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

/** By the whole graphs. */
export class GraphSteps implements BlockSteps {
  readonly takesPlainSums = true;
  readonly keepsTeamAlert = false;
  readonly #graphs: DecoderGraphs;

  constructor(graphs: DecoderGraphs) {
    this.#graphs = graphs;
  }

  computedRows(numRows: number): number {
    return numRows;
  }

  begin({ x, h }: BlockRows): void {
    const { between, vectors } = this.#graphs.parts;
    between.normalise(x, vectors[0]!.attentionNorm, h);
  }

  attention(layer: number, { h, sums }: BlockRows, rope: Feeds, into: Attended): void {
    this.#graphs.layers[layer]!.attention.run({ ...rope, h, ...fed(sums, 'qkv') }, { ...into });
  }

  output(layer: number, { o, x2, h, sums }: BlockRows): void {
    this.#graphs.layers[layer]!.output.run({ o, ...fed(sums, 'o') }, { x2, h });
  }

  feedForward(layer: number, { h, activated, sums }: BlockRows): void {
    this.#graphs.layers[layer]!.feedForward.run({ h, ...fed(sums, 'gate'), ...fed(sums, 'up') }, { activated });
  }

  down(layer: number, { activated, x, h, sums }: BlockRows): void {
    this.#graphs.layers[layer]!.down.run({ activated, ...fed(sums, 'down') }, { y: x, h });
  }

  head(hidden: Float32Array, logits: Float32Array): void {
    this.#graphs.head.run(hidden, logits);
  }

  close(): void {
    // It has the graphs alone.
  }
}

const fed = (sums: BlockRows['sums'], projection: ProjectionName): Feeds => ({
  [sumName(projection)]: sums[projection],
});
