import { SafetensorsReader } from './safetensors-reader.ts';
import { SafetensorsWriter } from './safetensors-writer.ts';

/** A float32 tensor, row-major. */
export interface NamedTensor {
  readonly name: string;
  readonly dims: readonly number[];
  /** As many values as the product of `dims`. */
  readonly data: Float32Array;
}

export interface SafetensorsFile {
  /** In the order of the data. */
  readonly tensors: ReadonlyMap<string, NamedTensor>;
  readonly metadata: Readonly<Record<string, string>>;
}

/**
 * Writes a new file of float32 tensors in the given order and syncs it to disk.
 *
 * @returns sha256 of its bytes, hex: equal tensors and metadata give equal files
 */
export function writeSafetensors(
  path: string,
  tensors: readonly NamedTensor[],
  metadata: Readonly<Record<string, string>>,
): string {
  const shapes = tensors.map(({ name, dims }) => ({ name, dims, dtype: 'F32' }) as const);
  using writer = new SafetensorsWriter(path, shapes, metadata);
  for (const { data } of tensors) writer.add(data);
  return writer.finish();
}

/**
 * Reads all tensors of a file as float32, and checks that header and data agree to the byte.
 *
 * @throws {TrainerError} `trainer.checkpoint_unreadable` with the file and the problem
 */
export function readSafetensors(path: string): SafetensorsFile {
  using reader = SafetensorsReader.open(path);
  const tensors = new Map<string, NamedTensor>();
  for (const { name, dims } of reader.entries.values()) tensors.set(name, { name, dims, data: reader.readF32(name) });
  return { tensors, metadata: reader.metadata };
}
