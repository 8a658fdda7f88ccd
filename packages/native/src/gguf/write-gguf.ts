import { replaceFile } from '../binding/replace-file.ts';
import type { GgufWritableValue } from './gguf-header-writer.ts';
import { GgufWriter } from './gguf-writer.ts';

export interface GgufTensorData {
  readonly name: string;
  /** ggml order: `dims[0]` is the contiguous (input) axis. */
  readonly dims: readonly number[];
  /** Length: the product of `dims`; stored as f32. */
  readonly data: Float32Array;
}

/**
 * `path` is complete or absent: a temporary file is synced and renamed.
 *
 * @param metadata in the order of its keys; must contain `general.architecture`
 */
export function writeGguf(
  path: string,
  metadata: Readonly<Record<string, GgufWritableValue>>,
  tensors: readonly GgufTensorData[],
): void {
  replaceFile(path, (temporary) => {
    using writer = new GgufWriter(
      temporary,
      metadata,
      tensors.map(({ name, dims }) => ({ name, dims, type: 'f32' })),
    );
    for (const { data } of tensors) writer.add(data);
    writer.finish();
  });
}
