import type { GgufFile, TensorPlace } from '@trainyard/native';
import type { Architecture } from './architecture.ts';
import { normTensorsOf, OUTPUT_BIAS, ROPE_FACTORS, SINKS_TENSOR } from './architecture-limits.ts';
import { defaultLora, linearDims } from './architecture.ts';
import {
  EXPERT_BIASES,
  EXPERT_TENSORS,
  expertDims,
  type ExpertMatrix,
  expertsIn,
  ROUTER_BIAS,
  ROUTER_TENSOR,
} from './experts.ts';
import { FAMILIES } from './families.ts';
import { DELTA_TENSORS, type DeltaVectors } from './gated-delta-net.ts';
import { layerMixer } from './layer-mixer.ts';
import { CONVOLUTION_TENSOR } from './short-convolution.ts';
import { fileMatrices, type FileMatrix } from './file-matrix.ts';
import { inHalves } from './head-permutation.ts';
import { GGUF_LINEARS, ggufLinear } from './gguf-linears.ts';
import type { LinearName, LoraConfig } from './lora-config.ts';
import type { ByProjection, LinearRows, ProjectionName } from './projections.ts';
import {
  byProjection,
  WideMatrix,
  inputOf,
  lowWidth,
  projectionDims,
  projectionParts,
  projectionsIn,
  projectionsOf,
} from './projections.ts';
import { sharedFloats } from './workspace.ts';

/** Norms and biases of one block, float32. H hidden size, D head size. */
export interface BlockVectors {
  /** Norms of the inputs of attention and feed-forward; null without them. */
  readonly normsBefore: BlockNorms | null;
  /** Norms of their outputs; null without them. */
  readonly normsAfter: BlockNorms | null;
  /** Biases of q, k and v, concatenated; null without `hasAttentionBias`. */
  readonly bias: Float32Array | null;
  /** Bias of the attention output [H], and score of each head's sink [heads]; null without `hasSinks`. */
  readonly outputBias: Float32Array | null;
  readonly sinks: Float32Array | null;
  /** Norms of q and k, as long as `queryKeyNormWidth`; null without them. */
  readonly queryKeyNorms: Readonly<Record<'q' | 'k', Float32Array>> | null;
  /** Weights of a convolution [size, H], in shared memory; null: the block has none. */
  readonly convolution: Float32Array | null;
  /** Null: the block has no gated delta net. */
  readonly deltaNet: DeltaVectors | null;
}

/** [H] each. */
export type BlockNorms = Readonly<Record<'attention' | 'feedForward', Float32Array>>;

export interface BlockWeights extends BlockVectors {
  /** Matrices [out, in] with room for an adapter; q and k in half-rotation order. */
  readonly matrices: ByProjection<WideMatrix>;
  /** Null: the block is dense. */
  readonly experts: ExpertWeights | null;
}

/** Router and experts of a block. */
export interface ExpertWeights {
  /** [E, H], shared memory */
  readonly router: Float32Array;
  /** [E · out, in] of all experts, in shared memory or in the model file */
  readonly matrices: Readonly<Record<ExpertMatrix, Float32Array | TensorPlace>>;
  /** Null without `hasBiases`. */
  readonly biases: ExpertBiases | null;
}

/** Biases of the router [E], and of the matrices of all experts [E, out], in shared memory. */
export type ExpertBiases = Readonly<Record<ExpertMatrix | 'router', Float32Array>>;

/** Frozen weights, float32. Linear weights exist once: graphs transpose while multiplying. */
export interface ModelWeights {
  /** [V, H], shared memory */
  readonly embedding: Float32Array;
  readonly blocks: readonly BlockWeights[];
  /** [H], divided by the divisor of logits, which follow it linearly. */
  readonly outputNorm: Float32Array;
  /** [V, H], shared memory; the same array as `embedding` if the model ties them. */
  readonly output: Float32Array;
  /** Divisors of the rope frequencies, half as many as rotated dimensions, or null. */
  readonly ropeFactors: Float32Array | null;
}

/** Frozen weights whose large matrices stay in an open file: the memory of about one block instead of all. */
export interface StreamedWeights extends Omit<ModelWeights, 'embedding' | 'output'> {
  /** [V, H] */
  readonly embedding: TensorPlace;
  /** [V, H] */
  readonly output: TensorPlace;
  /** Matrices of `blocks`, which have only room for an adapter. */
  readonly files: readonly ByProjection<FileMatrix>[];
}

const ATTENTION = ['q', 'k', 'v'] as const;

/**
 * Reads all weights as float32, dequantising if needed: about four bytes of memory per parameter.
 *
 * @param lora adapter to leave room for; another one costs a pass over the weights
 */
export function readWeights(
  file: Pick<GgufFile, 'tensors' | 'readF32'>,
  architecture: Architecture,
  lora: LoraConfig = defaultLora(architecture),
): ModelWeights {
  return readModel(file, architecture, (layer) =>
    wideMatrices(architecture, { lora, layer }, (rows) => readRows(file, architecture, { layer, rows })),
  );
}

/** Like {@link readWeights}, but the matrices of blocks have only room for an adapter. */
export function readWeightsExceptMatrices(
  file: Pick<GgufFile, 'tensors' | 'readF32'>,
  architecture: Architecture,
): ModelWeights {
  return readModel(file, architecture, (layer) => emptyMatrices(architecture, layer));
}

/** @param file open as long as the weights are used */
export function streamWeights(
  file: Pick<GgufFile, 'tensors' | 'readF32' | 'place'>,
  architecture: Architecture,
): StreamedWeights {
  const embedding = file.place('token_embd.weight');
  return {
    ...readRest(file, architecture, (layer) => emptyMatrices(architecture, layer), file),
    embedding,
    output: file.tensors.has('output.weight') ? file.place('output.weight') : embedding,
    files: fileMatrices(file, architecture),
  };
}

const emptyMatrices = (architecture: Architecture, layer: number): BlockWeights['matrices'] =>
  byProjection(projectionsIn(architecture, layer), (projection) =>
    WideMatrix.withoutWeights(projectionDims(architecture, projection).out, 0),
  );

function readModel(
  file: Pick<GgufFile, 'tensors' | 'readF32'>,
  architecture: Architecture,
  matricesOf: (layer: number) => BlockWeights['matrices'],
): ModelWeights {
  const numValues = architecture.vocabSize * architecture.hiddenSize;
  const embedding = readShared(file, 'token_embd.weight', numValues);
  const output = file.tensors.has('output.weight') ? readShared(file, 'output.weight', numValues) : embedding;
  return { ...readRest(file, architecture, matricesOf, null), embedding, output };
}

function readRest(
  file: Pick<GgufFile, 'tensors' | 'readF32'>,
  architecture: Architecture,
  matricesOf: (layer: number) => BlockWeights['matrices'],
  places: Pick<GgufFile, 'place'> | null,
): Omit<ModelWeights, 'embedding' | 'output'> {
  return {
    blocks: Array.from({ length: architecture.numLayers }, (_, layer) => ({
      ...readBlockVectors(file, architecture, layer),
      matrices: matricesOf(layer),
      experts: readExperts(file, architecture, layer, places),
    })),
    outputNorm: readOutputNorm(file, architecture),
    ropeFactors: readRopeFactors(file, architecture),
  };
}

/**
 * Router and experts of a block; null if it is dense.
 *
 * @param places file in which the matrices of experts stay; null: they are read into shared memory
 */
export function readExperts(
  file: Pick<GgufFile, 'readF32'>,
  architecture: Architecture,
  layer: number,
  places: Pick<GgufFile, 'place'> | null,
): ExpertWeights | null {
  const experts = expertsIn(architecture, layer);
  if (experts === null) return null;
  const matrix = (name: ExpertMatrix) => {
    const dims = expertDims(architecture, name);
    const tensor = `blk.${layer}.${EXPERT_TENSORS[name]}`;
    return places === null ? readShared(file, tensor, experts.count * dims.in * dims.out) : places.place(tensor);
  };
  const bias = (part: string, width: number) => readShared(file, `blk.${layer}.${part}`, experts.count * width);
  const biasOf = (name: ExpertMatrix) => bias(EXPERT_BIASES[name], expertDims(architecture, name).out);
  return {
    router: readShared(file, `blk.${layer}.${ROUTER_TENSOR}`, experts.count * architecture.hiddenSize),
    matrices: { gate: matrix('gate'), up: matrix('up'), down: matrix('down') },
    biases: experts.hasBiases
      ? { router: bias(ROUTER_BIAS, 1), gate: biasOf('gate'), up: biasOf('up'), down: biasOf('down') }
      : null,
  };
}

type FloatFile = Pick<GgufFile, 'readF32'>;

export function readBlockVectors(file: FloatFile, architecture: Architecture, layer: number): BlockVectors {
  const read = (name: string) => file.readF32(`blk.${layer}.${name}`);
  const names = normTensorsOf(FAMILIES[architecture.name]!);
  const norms = (place: keyof typeof names): BlockNorms | null => {
    const { attention, feedForward } = names[place];
    if (!architecture.norms[place]) return null;
    return { attention: read(`${attention}.weight`), feedForward: read(`${feedForward}.weight`) };
  };
  const bias = (linear: LinearName) => inHalves(read(`${GGUF_LINEARS[linear]}.bias`), linear, architecture, 1);
  const mixer = layerMixer(architecture, layer);
  return {
    normsBefore: norms('before'),
    normsAfter: norms('after'),
    bias: architecture.hasAttentionBias && mixer === 'attention' ? joined(ATTENTION.map(bias)) : null,
    outputBias: architecture.hasSinks ? read(OUTPUT_BIAS) : null,
    sinks: architecture.hasSinks ? read(SINKS_TENSOR) : null,
    queryKeyNorms:
      architecture.queryKeyNorm === null || mixer !== 'attention'
        ? null
        : { q: read('attn_q_norm.weight'), k: read('attn_k_norm.weight') },
    convolution: mixer === 'convolution' ? bySize(read(CONVOLUTION_TENSOR), architecture.convolution!.size) : null,
    deltaNet:
      mixer === 'deltaNet'
        ? {
            convolution: bySize(read(DELTA_TENSORS.convolution), architecture.deltaNet!.convolutionSize),
            decay: shared(read(DELTA_TENSORS.decay)),
            step: shared(read(DELTA_TENSORS.step)),
            norm: shared(read(DELTA_TENSORS.norm)),
          }
        : null,
  };
}

/** [channels, size] of a file as [size, channels]. */
function bySize(weights: Float32Array, size: number): Float32Array {
  const result = sharedFloats(weights.length);
  const channels = weights.length / size;
  for (let i = 0; i < weights.length; i++) result[(i % size) * channels + Math.floor(i / size)] = weights[i]!;
  return result;
}

/** [H], divided by the divisor of logits: the product with the vocabulary is linear. */
export function readOutputNorm(file: FloatFile, { logitScale, name }: Architecture): Float32Array {
  const norm = file.readF32(FAMILIES[name]!.outputNorm);
  return logitScale === 1 ? norm : norm.map((value) => value / logitScale);
}

/** Divisors of the rope frequencies (Llama 3.1 and later, longrope), half as many as rotated dimensions, or null. */
export function readRopeFactors(
  file: Pick<GgufFile, 'tensors' | 'readF32'>,
  { longRope }: Architecture,
): Float32Array | null {
  const name = longRope === null ? 'rope_freqs.weight' : ROPE_FACTORS.short;
  return file.tensors.has(name) ? file.readF32(name) : null;
}

export interface ProjectionMatrix {
  readonly projection: ProjectionName;
  readonly dims: { readonly in: number; readonly out: number };
  /** [out, in] */
  readonly data: Float32Array;
}

/** Reads one block after the other into the same memory. */
export class MatrixReader {
  readonly #file: FloatFile;
  readonly #architecture: Architecture;
  readonly #matrices: readonly ProjectionMatrix[];

  constructor(file: FloatFile, architecture: Architecture) {
    this.#file = file;
    this.#architecture = architecture;
    this.#matrices = projectionsOf(architecture).map((projection) => {
      const dims = projectionDims(architecture, projection);
      return { projection, dims, data: new Float32Array(dims.out * dims.in) };
    });
  }

  /** @returns the same arrays each time, with that layer's weights, without those of experts */
  read(layer: number): readonly ProjectionMatrix[] {
    const names = projectionsIn(this.#architecture, layer);
    const own = this.#matrices.filter(({ projection }) => names.includes(projection));
    for (const { projection, data } of own) readProjection(this.#file, this.#architecture, { layer, projection }, data);
    return own;
  }
}

/** Reads a projection's linear layers, stacked; q and k in half-rotation order. @param into [out, in], written */
function readProjection(
  file: FloatFile,
  architecture: Architecture,
  { layer, projection }: { readonly layer: number; readonly projection: ProjectionName },
  into: Float32Array,
): void {
  let at = 0;
  for (const rows of projectionParts(architecture, projection)) {
    const { in: width } = linearDims(architecture, rows.linear);
    const part = into.subarray(at, at + rows.numRows * width);
    const read = readRows(file, architecture, { layer, rows }, part);
    if (read !== part) part.set(read);
    at += part.length;
  }
}

/** @returns [rows, in]; in `into` if the row order does not change */
function readRows(
  file: FloatFile,
  architecture: Architecture,
  { layer, rows }: { readonly layer: number; readonly rows: LinearRows },
  into?: Float32Array,
): Float32Array {
  const { linear, firstRow, numRows } = rows;
  const { in: width } = linearDims(architecture, linear);
  const name = `blk.${layer}.${ggufLinear(architecture, layer, linear)}.weight`;
  const values = file.readF32(name, into ?? new Float32Array(numRows * width), firstRow * width);
  return inHalves(values, linear, architecture, width);
}

/** @param weight [rows, in] of a linear layer; called once per projection that has rows of it */
export function wideMatrices(
  architecture: Architecture,
  { lora, layer }: { readonly lora: LoraConfig; readonly layer: number },
  weight: (rows: LinearRows) => Float32Array,
): ByProjection<WideMatrix> {
  return byProjection(
    projectionsIn(architecture, layer),
    (projection) =>
      new WideMatrix(
        projectionDims(architecture, projection).in,
        projectionParts(architecture, projection).map(weight),
        lowWidth(inputOf(projection), lora),
      ),
  );
}

function joined(parts: readonly Float32Array[]): Float32Array {
  const result = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => (result.set(part, at), at + part.length), 0);
  return result;
}

function shared(values: Float32Array): Float32Array {
  const result = sharedFloats(values.length);
  result.set(values);
  return result;
}

const readShared = (file: FloatFile, name: string, numValues: number): Float32Array =>
  file.readF32(name, sharedFloats(numValues));
