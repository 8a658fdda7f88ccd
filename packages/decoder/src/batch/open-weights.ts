import type { Bf16Library, GgufFile } from '@trainyard/native';
import { type Architecture, parameterCount, routingParameters, type WeightsMode } from '@trainyard/transformer';
import { DecoderGraphs } from '../graphs/decoder-graphs.ts';
import { EMBEDDING, headTensor } from '../graphs/decoder-parts.ts';
import { Bf16Matrices } from '../products/bf16-matrices.ts';
import { PackedMatrices } from '../packed/packed-matrices.ts';
import { PackedWeights } from '../packed/packed-weights.ts';
import { StreamedMatrices } from '../products/streamed-matrices.ts';
import { WASM_LIMITS } from '../packed/weight-formats.ts';

export type DecoderWeights = DecoderGraphs | Bf16Matrices | PackedMatrices | StreamedMatrices;

export interface WeightsOptions {
  readonly numThreads: number;
  /** Library for matrices in bf16. Default: single precision, which trainer and sampler share. */
  readonly bf16?: Bf16Library | null;
  /** `streamed`: matrices and embedding stay in the file if a copy would be larger than there. Default `resident`. */
  readonly weights?: WeightsMode;
  /** Uses the kernels in C if they give the bits of those in WebAssembly. Default true. */
  readonly usesNativeKernels?: boolean;
}

/**
 * Opens the matrices of a model in the form that this machine computes fastest; all but bf16 give the same bits.
 *
 * @returns `keepsFile`: the weights read the file as long as they are open, and close it
 * @throws {UnsupportedModelError} if nothing computes this model
 */
export function openWeights(
  file: GgufFile,
  architecture: Architecture,
  { numThreads, bf16 = null, weights: mode = 'resident', usesNativeKernels = true }: WeightsOptions,
): { readonly weights: DecoderWeights; readonly keepsFile: boolean } {
  if (bf16 !== null) return { weights: new Bf16Matrices(file, architecture, bf16, numThreads), keepsFile: false };
  const keepsFile = mode === 'streamed';
  const packed = usesNativeKernels ? PackedMatrices.open(file, architecture, mode) : null;
  if (packed !== null) return { weights: packed, keepsFile };
  if (keepsFile) return { weights: new StreamedMatrices(file, architecture), keepsFile };
  return { weights: new DecoderGraphs(file, architecture, numThreads), keepsFile };
}

/**
 * Memory of the weights of a decoder, bytes, with the packed ones for few rows if the graphs compute many. Routers and
 * biases of experts are in memory in both modes, matrices of resident experts in single precision.
 */
export function weightBytes(
  file: Pick<GgufFile, 'tensors'>,
  architecture: Architecture,
  { matrices, mode }: { readonly matrices: 'f32' | 'bf16'; readonly mode: WeightsMode },
): number {
  const { tensors } = file;
  const embedding = tensors.get(EMBEDDING)?.sizeBytes ?? 0;
  // The graphs expand the embedding only if it is also the head.
  const expanded = parameterCount(file, (name) => name !== EMBEDDING || headTensor(file) === EMBEDDING);
  if (matrices === 'bf16') return embedding + 2 * expanded;
  const packed = PackedMatrices.bytesOf(file, architecture, mode);
  if (mode === 'streamed')
    return (packed || PackedWeights.bytesOf(file, architecture, WASM_LIMITS)) + 4 * routingParameters(architecture);
  if (packed === 0) return embedding + 4 * expanded + PackedWeights.bytesOf(file, architecture, WASM_LIMITS);
  const isPacked = PackedWeights.tensorNames(file, architecture);
  return packed + embedding + 4 * parameterCount(file, (name) => name !== EMBEDDING && !isPacked.has(name));
}
