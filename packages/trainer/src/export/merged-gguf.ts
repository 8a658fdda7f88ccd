import { GgufWriter, type GgufFile, type GgufTensorShape } from '@trainyard/native';
import { isSinglePrecision } from '../model-folder/tensor-table.ts';
import type { ComputeOptions } from '../model/policy-model.ts';
import type { MergedType, MergedWeights } from './merged-weights.ts';

/** `general.file_type` by type of the matrices. */
const FILE_TYPES: Readonly<Record<MergedType, number>> = { f32: 0, f16: 1 };

/** Facts about the source's storage, untrue for the copy. */
const STORAGE_KEYS = /^general\.(alignment|quantization_version)$|^quantize\./;

/**
 * Writes all tensors of `source` plus `weights`, and all of its metadata, including vocabulary and chat
 * template.
 *
 * @param path must not exist; the caller syncs it
 */
export async function writeMergedGguf(
  path: string,
  source: GgufFile,
  { weights, type }: { readonly weights: MergedWeights; readonly type: MergedType },
  options: ComputeOptions,
): Promise<void> {
  const kept = Object.entries(source.rawMetadata()).filter(([key]) => !STORAGE_KEYS.test(key));
  const metadata = { ...Object.fromEntries(kept), 'general.file_type': { u32: FILE_TYPES[type] } };
  const tensors = [...source.tensors.values()].map(
    ({ name, dims }): GgufTensorShape & { readonly type: MergedType } => ({
      name,
      dims,
      type: isSinglePrecision(name, dims) ? 'f32' : type,
    }),
  );
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
