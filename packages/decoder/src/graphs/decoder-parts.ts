import type { GgufFile, OnnxTensor } from '@trainyard/native';
import {
  addsPlainOutputs,
  biasName,
  MatrixRows,
  outputBiasName,
  queryKeyNormName,
  readBlockVectors,
  readExperts,
  readOutputNorm,
  readRopeFactors,
} from '@trainyard/transformer';
import type { Architecture, BlockVectors, ConstantTensor, ExpertWeights } from '@trainyard/transformer';
import { BetweenProducts } from './between-products.ts';
import { vector, type Feeds } from './constant-graph.ts';

type TensorFile = Pick<GgufFile, 'tensors' | 'readF32' | 'readStored'>;

export const EMBEDDING = 'token_embd.weight';

/** Tensor of the head [V, H]; the embedding if the model has no separate one. */
export const headTensor = ({ tensors }: Pick<GgufFile, 'tensors'>): string =>
  tensors.has('output.weight') ? 'output.weight' : EMBEDDING;

/** A decoder without its matrices, except those of experts, of which each token uses some. */
export class DecoderParts {
  readonly architecture: Architecture;
  /** Includes the norm before the first block. */
  readonly between: BetweenProducts;
  readonly vectors: readonly BlockVectors[];
  /** Router and experts by layer; null: dense. */
  readonly experts: readonly (ExpertWeights | null)[];
  /** [H] */
  readonly outputNorm: Float32Array;
  /** [V, H] */
  readonly embedding: MatrixRows;
  /** As in `ModelWeights`. */
  readonly ropeFactors: Float32Array | null;

  /**
   * @param places file that stays open, with the embedding and experts. Default: read into memory, the embedding as
   * it is stored
   */
  constructor(file: TensorFile, architecture: Architecture, places: Pick<GgufFile, 'place'> | null = null) {
    this.architecture = architecture;
    this.vectors = Array.from({ length: architecture.numLayers }, (_, layer) =>
      readBlockVectors(file, architecture, layer),
    );
    this.experts = this.vectors.map((_, layer) => readExperts(file, architecture, layer, places));
    const embedding = places === null ? file.readStored(EMBEDDING) : places.place(EMBEDDING);
    this.embedding = new MatrixRows(embedding, architecture.hiddenSize);
    this.ropeFactors = readRopeFactors(file, architecture);
    this.outputNorm = readOutputNorm(file, architecture);
    this.between = new BetweenProducts(architecture);
  }

  /** Matrix of the head [V, H]. */
  readHead(file: TensorFile): Float32Array {
    return file.readF32(headTensor(file));
  }

  /** Normalises x → h for a block's attention; after the last block h does not change. */
  normaliseForAttention(layer: number, x: OnnxTensor, h: OnnxTensor): void {
    const block = this.vectors[layer];
    if (block !== undefined) this.#normalise(x, block.normsBefore?.attention, h);
  }

  /** Normalises x2 → h. */
  normaliseForFeedForward(layer: number, x2: OnnxTensor, h: OnnxTensor): void {
    this.#normalise(x2, this.vectors[layer]!.normsBefore?.feedForward, h);
  }

  /**
   * Place for the product of o or down: the residual sum itself, or `spare`, from which {@link addOutput} makes
   * that sum.
   */
  productOnto<Rows>(sum: Rows, spare: Rows): Rows {
    return addsPlainOutputs(this.architecture) ? sum : spare;
  }

  /** sum = residual + scale · norm(product + bias); nothing without any of them: the product was added to the residual. */
  addOutput(
    layer: number,
    of: 'attention' | 'feedForward',
    { residual, product, sum }: Readonly<Record<'residual' | 'product' | 'sum', OnnxTensor>>,
  ): void {
    if (addsPlainOutputs(this.architecture)) return;
    const { normsAfter, outputBias } = this.vectors[layer]!;
    this.between.addOutput(
      of,
      { x: residual, y: product, sum },
      {
        ...(normsAfter !== null && { norm: vector(normsAfter[of]) }),
        ...(outputBias !== null && { [outputBiasName]: vector(outputBias) }),
      },
    );
  }

  /** Product qkv of a block → q, k, v. @param rope cos and sin */
  rotate(layer: number, qkv: OnnxTensor, rope: Feeds, into: Feeds): void {
    this.between.rotation.run({ ...rope, ...vectorsOfHeads(this.vectors[layer]!), qkv }, into);
  }

  /** Copies x if there is no norm. */
  #normalise(x: OnnxTensor, norm: Float32Array | undefined, h: OnnxTensor): void {
    if (norm === undefined) (h.data as Float32Array).set(x.data as Float32Array);
    else this.between.normalise(x, norm, h);
  }

  close(): void {
    this.between.close();
  }
}

/** Biases of q, k and v, and norms of q and k, under the names of the graphs' inputs. */
function vectorsOfHeads({ bias, queryKeyNorms }: BlockVectors): Record<string, ConstantTensor> {
  return {
    ...(bias === null ? {} : { [biasName]: vector(bias) }),
    ...(queryKeyNorms === null
      ? {}
      : { [queryKeyNormName('q')]: vector(queryKeyNorms.q), [queryKeyNormName('k')]: vector(queryKeyNorms.k) }),
  };
}
