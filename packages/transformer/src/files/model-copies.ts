import { basename, dirname, join } from 'node:path';

const TYPES = ['f32', 'f16'] as const;

export type CopyType = (typeof TYPES)[number];

export function copyName(modelPath: string, type: CopyType): string {
  return `${basename(modelPath).replace(/\.gguf$/i, '')}.${type}.gguf`;
}

/** File that records the source of a copy. */
export function stampFileOf(copy: string): string {
  return `${copy}.json`;
}

/** Next to the model file, or in the folder for copies. */
export function copyPaths(modelPath: string, cacheDirectory: string): string[] {
  const directories = [dirname(modelPath), cacheDirectory];
  return directories.flatMap((directory) => TYPES.map((type) => join(directory, copyName(modelPath, type))));
}
