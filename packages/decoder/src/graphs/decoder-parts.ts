import type { GgufFile, OnnxTensor } from '@trainyard/native';
import { biasName, headNormName, readBlockVectors } from '@trainyard/transformer';
import type { Architecture, BlockVectors, ConstantTensor } from '@trainyard/transformer';
import { BetweenProducts } from './between-products.ts';
import { vector, type Feeds } from './constant-graph.ts';

type TensorFile = Pick<GgufFile, 'tensors' | 'readF32'>;

/** A decoder but for its matrices: what is the same whoever multiplies by those. */
export class DecoderParts {
  readonly architecture: Architecture;
  /** The expressions between products, and the norm before the first block. */
  readonly between: BetweenProducts;
  /** By layer: norms and biases. */
  readonly vectors: readonly BlockVectors[];
  /** [H] */
  readonly outputNorm: Float32Array;
  /** [V, H] */
  readonly embedding: Float32Array;
  /** [D/2] or null. */
  readonly ropeFactors: Float32Array | null;

  constructor(file: TensorFile, architecture: Architecture) {
    this.architecture = architecture;
    this.vectors = Array.from({ length: architecture.numLayers }, (_, layer) =>
      readBlockVectors(file, architecture, layer),
    );
    this.embedding = file.readF32('token_embd.weight');
    this.ropeFactors = file.tensors.has('rope_freqs.weight') ? file.readF32('rope_freqs.weight') : null;
    this.outputNorm = file.readF32('output_norm.weight');
    // Last of all: what it opens has to be closed.
    this.between = new BetweenProducts(architecture);
  }

  /** The matrix of the head [V, H]: the embedding, where the model has none of its own. */
  readHead(file: TensorFile): Float32Array {
    return file.tensors.has('output.weight') ? file.readF32('output.weight') : this.embedding;
  }

  /** x → h, normalised for the attention of a block; behind the last block h stays as it is. */
  normaliseForAttention(layer: number, x: OnnxTensor, h: OnnxTensor): void {
    const block = this.vectors[layer];
    if (block !== undefined) this.between.normalise(x, block.attentionNorm, h);
  }

  /** x2 → h, normalised for the feed-forward layers of a block. */
  normaliseForFeedForward(layer: number, x2: OnnxTensor, h: OnnxTensor): void {
    this.between.normalise(x2, this.vectors[layer]!.feedForwardNorm, h);
  }

  /** The products qkv of a block → q, k, v. @param rope cos and sin */
  rotate(layer: number, qkv: OnnxTensor, rope: Feeds, into: Feeds): void {
    this.between.rotation.run({ ...rope, ...vectorsOfHeads(this.vectors[layer]!), qkv }, into);
  }

  close(): void {
    this.between.close();
  }
}

/** Biases of q, k and v, and norms of their heads, as graphs and their feeds name them. */
function vectorsOfHeads({ bias, headNorms }: BlockVectors): Record<string, ConstantTensor> {
  return {
    ...(bias === null ? {} : { [biasName]: vector(bias) }),
    ...(headNorms === null
      ? {}
      : { [headNormName('q')]: vector(headNorms.q), [headNormName('k')]: vector(headNorms.k) }),
  };
}
