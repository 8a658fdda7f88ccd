import { returnFreeMemory } from '@trainyard/native';
import type { GgufFile } from '@trainyard/native';
import {
  biasName,
  BlockGraph,
  headNormName,
  normName,
  PROJECTION_NAMES,
  projectionDims,
  readBlockVectors,
  readProjection,
  weightName,
} from '@trainyard/transformer';
import type { Architecture, BlockVectors, ConstantTensor, Outputs, ProjectionName } from '@trainyard/transformer';
import { BetweenProducts } from './between-products.ts';
import { ConstantGraph, vector } from './constant-graph.ts';
import { DecoderHead } from './decoder-head.ts';

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
  readonly architecture: Architecture;
  readonly layers: readonly LayerGraphs[];
  /** For few rows, and for the norm before the first block. */
  readonly between: BetweenProducts;
  readonly head: DecoderHead;
  /** By layer: norms and biases. */
  readonly vectors: readonly BlockVectors[];
  /** [H] */
  readonly outputNorm: Float32Array;
  /** [V, H] */
  readonly embedding: Float32Array;
  /** [D/2] or null. */
  readonly ropeFactors: Float32Array | null;

  /** @param numThreads of one graph, the calling one included */
  constructor(file: Pick<GgufFile, 'tensors' | 'readF32'>, architecture: Architecture, numThreads: number) {
    const { numLayers } = architecture;
    this.architecture = architecture;
    const graph = new BlockGraph(architecture, 'outside');
    const open = (outputs: Outputs, constants: Constants) => new ConstantGraph(outputs, constants, numThreads);
    const vectors = Array.from({ length: numLayers }, (_, layer) => readBlockVectors(file, architecture, layer));
    // One after the other in the same memory: a session has its own copy of its weights.
    const matrices = PROJECTION_NAMES.map((projection): [ProjectionName, ConstantTensor] => {
      const { out, in: width } = projectionDims(architecture, projection);
      return [projection, { data: new Float32Array(out * width), dims: [out, width] }];
    });
    this.layers = vectors.map((block, layer) => {
      const weights = Object.fromEntries(
        matrices.map(([projection, matrix]) => {
          readProjection(file, architecture, layer, projection, matrix.data);
          return [weightName(projection), matrix];
        }),
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
    this.vectors = vectors;
    this.between = new BetweenProducts(architecture);
    this.embedding = file.readF32('token_embd.weight');
    this.ropeFactors = file.tensors.has('rope_freqs.weight') ? file.readF32('rope_freqs.weight') : null;
    const output = file.tensors.has('output.weight') ? file.readF32('output.weight') : this.embedding;
    this.outputNorm = file.readF32('output_norm.weight');
    this.head = new DecoderHead(output, this.outputNorm, architecture, numThreads);
    returnFreeMemory();
  }

  close(): void {
    for (const layer of this.layers) for (const graph of Object.values(layer) as ConstantGraph[]) graph.close();
    this.between.close();
    this.head.close();
  }
}

type Constants = Record<string, ConstantTensor>;

/** Biases of q, k and v, and norms of their heads, as graphs and their feeds name them. */
export function vectorsOfHeads({ bias, headNorms }: BlockVectors): Constants {
  return {
    ...(bias === null ? {} : { [biasName]: vector(bias) }),
    ...(headNorms === null
      ? {}
      : { [headNormName('q')]: vector(headNorms.q), [headNormName('k')]: vector(headNorms.k) }),
  };
}
