import { accessSync, constants, mkdirSync, readFileSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { GgufFile, NativeError, quantizeModel } from '@trainyard/native';

/** Tensor types that the trainer reads to the very values that llama.cpp computes with. */
const EXACT_TYPES: ReadonlySet<string> = new Set(['f32', 'f16', 'bf16']);

/**
 * The file to serve: the model as it is, or its half-precision copy, made once and kept beside it (or in the cache folder).
 *
 * Measured against the f32 trainer on 200 sampled tokens, mean |Δlogprob|: the Q4_1 file 0.066, its F16 copy 0.003.
 *
 * @throws {NativeError} when the file is missing or malformed, or the copy cannot be written
 */
export function servedModelPath(options: {
  readonly modelPath: string;
  readonly precision: 'exact' | 'strict' | 'fast';
  readonly cacheDirectory: string;
  readonly numThreads: number;
}): string {
  const { modelPath, precision, cacheDirectory, numThreads } = options;
  if (precision === 'fast' || isExact(modelPath)) return modelPath;
  const name = `${basename(modelPath).replace(/\.gguf$/i, '')}.f16.gguf`;
  const { size, mtimeMs } = statSync(modelPath);
  const stamp = JSON.stringify({ sourceSizeBytes: size, sourceModifiedMs: Math.trunc(mtimeMs) });
  const directory = isWritable(dirname(modelPath)) ? dirname(modelPath) : cacheDirectory;
  const copy = join(directory, name);
  if (isUpToDate(copy, stamp)) return copy;
  mkdirSync(directory, { recursive: true });
  requireSpace(directory, modelPath);
  quantizeModel(modelPath, copy, 'f16', numThreads);
  writeFileSync(stampPath(copy), stamp);
  return copy;
}

/** Told before minutes of work, and as what it is: llama.cpp says of a full disk that an iostream failed. */
function requireSpace(directory: string, modelPath: string): void {
  const file = GgufFile.open(modelPath);
  const copyBytes = 2 * [...file.tensors.values()].reduce((sum, { dims }) => sum + dims.reduce((a, b) => a * b, 1), 0);
  file.close();
  const { bavail, bsize } = statfsSync(directory);
  if (bavail * bsize > copyBytes) return;
  const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;
  throw new NativeError(
    'native.quantize_failed',
    `the disk of ${directory} has ${megabytes(bavail * bsize)} free, and the half-precision copy of the model takes ${megabytes(copyBytes)}: ` +
      'free some, set TRAINYARD_DATA_DIR to a folder on another disk, or serve the file as it is with TRAINYARD_PRECISION=fast',
  );
}

function isExact(path: string): boolean {
  const file = GgufFile.open(path);
  try {
    return file.tensors.values().every(({ type }) => EXACT_TYPES.has(type.toLowerCase()));
  } finally {
    file.close();
  }
}

function stampPath(copy: string): string {
  return `${copy}.json`;
}

/** The stamp is written after the copy, so a stamp that fits means a copy that was finished, of this very source. */
function isUpToDate(copy: string, stamp: string): boolean {
  try {
    return statSync(copy).size > 0 && readFileSync(stampPath(copy), 'utf8') === stamp;
  } catch {
    return false; // one of the two is missing: make the copy
  }
}

function isWritable(directory: string): boolean {
  try {
    accessSync(directory, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
