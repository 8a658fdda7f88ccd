import { SafetensorsReader } from './safetensors-reader.ts';
import { SafetensorsWriter } from './safetensors-writer.ts';

/** A float32 tensor, row-major. */
export interface NamedTensor {
  readonly name: string;
  readonly dims: readonly number[];
  /** Length: the product of `dims`. */
  readonly data: Float32Array;
}

export interface SafetensorsFile {
  /** Ordered like the data. */
  readonly tensors: ReadonlyMap<string, NamedTensor>;
  readonly metadata: Readonly<Record<string, string>>;
}

/**
 * Writes the tensors in order and syncs the file to disk.
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
 * Checks that header and data agree to the byte.
 *
 * @throws {TrainerError} `trainer.checkpoint_unreadable` with the file and the problem
 */
export function readSafetensors(path: string): SafetensorsFile {
  using reader = SafetensorsReader.open(path);
  const tensors = new Map<string, NamedTensor>();
  for (const { name, dims } of reader.entries.values()) tensors.set(name, { name, dims, data: reader.readF32(name) });
  return { tensors, metadata: reader.metadata };
}
