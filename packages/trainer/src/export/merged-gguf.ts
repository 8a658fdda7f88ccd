import { GgufWriter, type GgufFile, type GgufTensorShape } from '@trainyard/native';
import type { ComputeOptions } from '../model/policy-model.ts';
import type { MergedType, MergedWeights } from './merged-weights.ts';

/** `general.file_type` of a file whose matrices are of that type. */
const FILE_TYPES: Readonly<Record<MergedType, number>> = { f32: 0, f16: 1 };

/** Says how the source was stored, which the copy is not. */
const STORAGE_KEYS = /^general\.(alignment|quantization_version)$|^quantize\./;

/**
 * Writes a whole model as GGUF: every tensor of `source`, with what `weights` adds, and all of its metadata, the vocabulary
 * and the chat template among them.
 *
 * @param path must not exist; syncing it is the caller's
 */
export async function writeMergedGguf(
  path: string,
  source: GgufFile,
  weights: MergedWeights,
  type: MergedType,
  options: ComputeOptions,
): Promise<void> {
  const kept = Object.entries(source.rawMetadata()).filter(([key]) => !STORAGE_KEYS.test(key));
  const metadata = { ...Object.fromEntries(kept), 'general.file_type': { u32: FILE_TYPES[type] } };
  const tensors = [...source.tensors.values()].map(({ name, dims }): GgufTensorShape => ({
    name,
    dims,
    type: dims.length === 1 ? 'f32' : type,
  }));
  using writer = new GgufWriter(path, metadata, tensors);
  for (const tensor of tensors) {
    await options.gate?.acquire(options.signal);
    try {
      options.signal?.throwIfAborted();
      writer.add(weights.read(tensor.name, tensor.type));
    } finally {
      options.gate?.release();
    }
  }
  writer.finish();
}
