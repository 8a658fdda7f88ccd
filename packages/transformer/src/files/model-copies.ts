import { basename, dirname, join } from 'node:path';

const TYPES = ['f32', 'f16'] as const;

/** Precision of a copy of a model file. */
export type CopyType = (typeof TYPES)[number];

/** File name of a copy of a model file in another precision. */
export function copyName(modelPath: string, type: CopyType): string {
  return `${basename(modelPath).replace(/\.gguf$/i, '')}.${type}.gguf`;
}

/** The file that says which source a copy was made of. */
export function stampFileOf(copy: string): string {
  return `${copy}.json`;
}

/** Every place where a copy of a model file may be: next to it, or in the folder for copies. */
export function copyPaths(modelPath: string, cacheDirectory: string): string[] {
  const directories = [dirname(modelPath), cacheDirectory];
  return directories.flatMap((directory) => TYPES.map((type) => join(directory, copyName(modelPath, type))));
}
