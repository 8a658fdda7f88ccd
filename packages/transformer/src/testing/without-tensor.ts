import type { GgufFile } from '@trainyard/native';

type Readable = Pick<GgufFile, 'tensors' | 'readF32' | 'readStored'>;

/** A file as if truncated: reading that tensor fails with `no NAME`. */
export function withoutTensor(file: Readable, missing: string): Readable {
  const present = (name: string): string => {
    if (name === missing) throw new Error(`no ${name}`);
    return name;
  };
  return {
    tensors: file.tensors,
    readF32: (name, ...rest) => file.readF32(present(name), ...rest),
    readStored: (name) => file.readStored(present(name)),
  };
}
