import { returnFreeMemory } from '@trainyard/native';
import type { GgufFile } from '@trainyard/native';
import { BlockGraph, MatrixReader, normName, weightName } from '@trainyard/transformer';
import type { Architecture, ConstantTensor, Outputs } from '@trainyard/transformer';
import { ConstantGraph, vector } from './constant-graph.ts';
import { DecoderHead } from './decoder-head.ts';
import { DecoderParts, vectorsOfHeads } from './decoder-parts.ts';

/** A block as graphs, cut where attention goes and where adapters do. */
export interface LayerGraphs {
  /** h, qkv.sum, cos, sin → q, k, v. */
  readonly attention: ConstantGraph;
  /** o, o.sum → x2, h. */
  readonly output: ConstantGraph;
  /** h, gate.sum, up.sum → activated. */
  readonly feedForward: ConstantGraph;
  /** activated, down.sum → y and, but for the last block, h of the next one. */
  readonly down: ConstantGraph;
}

/**
 * A decoder as graphs that are cut where attention and adapters go. Each begins with products, which are added to sums that come from outside: a residual, what adapters
 * give, or nothing.
 *
 * Weights are constants, which ONNX Runtime lays out for its kernels once: fed as inputs the products of 8 rows measured 2.6 times as long, of 64 rows 1.5 times.
 * They are in memory once, as float32.
 */
export class DecoderGraphs {
  readonly parts: DecoderParts;
  readonly layers: readonly LayerGraphs[];
  readonly head: DecoderHead;

  /** @param numThreads of one graph, the calling one included */
  constructor(file: Pick<GgufFile, 'tensors' | 'readF32'>, architecture: Architecture, numThreads: number) {
    this.parts = new DecoderParts(file, architecture);
    const { vectors } = this.parts;
    const graph = new BlockGraph(architecture, 'outside');
    const open = (outputs: Outputs, constants: Constants) => new ConstantGraph(outputs, constants, numThreads);
    // A session has its own copy of its weights.
    const reader = new MatrixReader(file, architecture);
    this.layers = vectors.map((block, layer) => {
      const weights = Object.fromEntries(
        reader
          .read(layer)
          .map(({ projection, dims, data }) => [weightName(projection), { data, dims: [dims.out, dims.in] }]),
      );
      const next = vectors[layer + 1];
      const nextNorm: Constants = next === undefined ? {} : { [normName('attention')]: vector(next.attentionNorm) };
      return {
        attention: open(graph.attentionProducts(), { ...weights, ...vectorsOfHeads(block) }),
        output: open(graph.outputProduct(), { ...weights, [normName('feedForward')]: vector(block.feedForwardNorm) }),
        feedForward: open(graph.feedForwardProducts(), weights),
        down: open(graph.downProduct(next === undefined), { ...weights, ...nextNorm }),
      };
    });
    this.head = new DecoderHead(this.parts.readHead(file), this.parts.outputNorm, architecture, numThreads);
    returnFreeMemory();
  }

  close(): void {
    for (const layer of this.layers) for (const graph of Object.values(layer) as ConstantGraph[]) graph.close();
    this.parts.close();
    this.head.close();
  }
}

type Constants = Record<string, ConstantTensor>;
