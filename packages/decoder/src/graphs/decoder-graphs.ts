import { returnFreeMemory } from '@trainyard/native';
import type { GgufFile } from '@trainyard/native';
import {
  biasName,
  BlockGraph,
  headNormName,
  normName,
  PROJECTIONS,
  readBlockWeights,
  weightName,
} from '@trainyard/transformer';
import type { Architecture, BlockWeights, ConstantTensor, LoraConfig, ProjectionName } from '@trainyard/transformer';
import { ConstantGraph, vector } from './constant-graph.ts';
import { DecoderHead } from './decoder-head.ts';

/** Norms and biases of a block. */
export type LayerVectors = Omit<BlockWeights, 'matrices'>;

const NO_ADAPTER: LoraConfig = { rank: 1, alpha: 1, targets: [], initSeed: 0 };

/**
 * A decoder as graphs that are cut where attention goes: before the first one, from each to the next, behind the last one, and the head.
 *
 * Weights are constants, which ONNX Runtime lays out for its kernels once: fed as inputs the products of 8 rows measured 2.6 times as long, of 64 rows 1.5 times.
 * They are in memory once, as float32.
 */
export class DecoderGraphs {
  readonly architecture: Architecture;
  /** x, cos, sin and the attention stack → q, k, v. */
  readonly first: ConstantGraph;
  /** [layers - 1] x, o, cos, sin and both stacks → y, q, k, v. */
  readonly between: readonly ConstantGraph[];
  /** x, o and the stack → y. */
  readonly last: ConstantGraph;
  readonly head: DecoderHead;
  /** By layer: norms and biases. */
  readonly vectors: readonly LayerVectors[];
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
    const graph = new BlockGraph(architecture, 'stacked');
    const vectors: LayerVectors[] = [];
    const read = (layer: number): BlockWeights => {
      const { matrices: ofLayer, ...others } = readBlockWeights(file, architecture, NO_ADAPTER, layer);
      vectors.push(others);
      return { matrices: ofLayer, ...others };
    };
    this.vectors = vectors;
    let block = read(0);
    this.first = new ConstantGraph(graph.attentionInput(), attentionConstants(block), numThreads);
    this.between = Array.from({ length: numLayers - 1 }, (_, layer) => {
      const next = read(layer + 1);
      const constants = { ...outputConstants(block), ...attentionConstants(next) };
      block = next;
      return new ConstantGraph(graph.between(), constants, numThreads);
    });
    this.last = new ConstantGraph({ y: graph.output().y }, outputConstants(block), numThreads);
    this.embedding = file.readF32('token_embd.weight');
    this.ropeFactors = file.tensors.has('rope_freqs.weight') ? file.readF32('rope_freqs.weight') : null;
    const output = file.tensors.has('output.weight') ? file.readF32('output.weight') : this.embedding;
    this.outputNorm = file.readF32('output_norm.weight');
    this.head = new DecoderHead(output, this.outputNorm, architecture, numThreads);
    returnFreeMemory();
  }

  close(): void {
    for (const graph of [this.first, ...this.between, this.last, this.head]) graph.close();
  }
}

function matrices(block: BlockWeights, projections: readonly ProjectionName[]): Record<string, ConstantTensor> {
  return Object.fromEntries(
    projections.map((projection) => {
      const { data, rows, width } = block.matrices[projection];
      return [weightName(projection), { data, dims: [rows, width] }];
    }),
  );
}

function attentionConstants(block: BlockWeights): Record<string, ConstantTensor> {
  const { attentionNorm, bias, headNorms } = block;
  return {
    ...matrices(block, ['qkv']),
    [normName('attention')]: vector(attentionNorm),
    ...(bias === null ? {} : { [biasName]: vector(bias) }),
    ...(headNorms === null
      ? {}
      : { [headNormName('q')]: vector(headNorms.q), [headNormName('k')]: vector(headNorms.k) }),
  };
}

function outputConstants(block: BlockWeights): Record<string, ConstantTensor> {
  const others = (Object.keys(PROJECTIONS) as ProjectionName[]).filter((projection) => projection !== 'qkv');
  return { ...matrices(block, others), [normName('feedForward')]: vector(block.feedForwardNorm) };
}
