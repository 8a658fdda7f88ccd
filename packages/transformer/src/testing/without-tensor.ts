import type { GgufFile } from '@trainyard/native';

/** A file as if truncated: reading that tensor fails with `no NAME`. */
export function withoutTensor(
  file: Pick<GgufFile, 'tensors' | 'readF32'>,
  missing: string,
): Pick<GgufFile, 'tensors' | 'readF32'> {
  const readF32: GgufFile['readF32'] = (name, ...rest) => {
    if (name === missing) throw new Error(`no ${name}`);
    return file.readF32(name, ...rest);
  };
  return { tensors: file.tensors, readF32 };
}
