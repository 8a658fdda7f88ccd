import { accessSync, constants, mkdirSync, readFileSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { GgufFile, type LlamaModel, NativeError, quantizeModel, replaceFile } from '@trainyard/native';
import { formatMegabytes } from '@trainyard/protocol/fields';
import { copyName, parameterCount, readArchitecture, stampFileOf, UnsupportedModelError } from '@trainyard/transformer';
import type { Architecture } from '@trainyard/transformer';
import { HEAD_GRANULARITY, hasBf16Steps } from '@trainyard/decoder';
import { requireLoadable } from './require-loadable.ts';

/** Program that computes a model, and the precision of its keys and values. */
export type Computation =
  | { readonly runner: 'graphs' }
  | {
      readonly runner: 'llama';
      readonly cachePrecision: 'f16' | 'f32';
      /** Faster, with an error that grows with the context. */
      readonly flashAttention: boolean;
    };

export type ServedFile = { readonly path: string } & (
  | { readonly runner: 'graphs'; readonly matrices: 'f32' | 'bf16' }
  | Extract<Computation, { readonly runner: 'llama' }>
);

export interface ServedFileOptions {
  readonly modelPath: string;
  /**
   * `exact`: sampler and trainer share their code if the graphs compute the model; else llama.cpp on
   * half-precision weights, which agrees to 1e-3. `strict`: the same, else llama.cpp in single precision (weights,
   * keys and values), which agrees to 1e-5. `fast`: llama.cpp on the file as it is. `bf16`: the graphs with
   * matrices and their inputs in bf16, which agrees to 0.02 (docs/decisions/0034).
   */
  readonly precision: 'exact' | 'strict' | 'fast' | 'bf16';
  /** Folder for a copy in another precision if the model's own folder is read-only. */
  readonly cacheDirectory: string;
  readonly numThreads: number;
}

/**
 * Tensor types for which trainer and llama.cpp use identical weights; with those of `strict` llama.cpp also
 * multiplies in single precision.
 */
const EXACT_TYPES = { exact: new Set(['f32', 'f16', 'bf16']), strict: new Set(['f32']) } as const;

/**
 * The file to serve, and the vocabulary of the model without weights, which the caller must close.
 *
 * @throws {NativeError} if the file is missing or cannot be loaded, or a copy cannot be written
 * @throws {UnsupportedModelError} if bf16 is requested for a model that the graphs do not compute
 */
export function openServedFile(options: ServedFileOptions): {
  readonly served: ServedFile;
  readonly vocabulary: LlamaModel;
} {
  const vocabulary = requireLoadable(options.modelPath);
  try {
    return { served: servedFile(options), vocabulary };
  } catch (error) {
    vocabulary.close();
    throw error;
  }
}

/**
 * Makes a copy in another precision if llama.cpp needs one, next to the model (or in the cache folder).
 *
 * Mean |Δlogprob| against the f32 trainer on 200 sampled tokens: llama.cpp on the Q4_1 file 0.066, on its F16
 * copy 0.003. For half-precision weights llama.cpp rounds activations to half precision unless the processor has
 * a better instruction.
 */
function servedFile({ modelPath, precision, cacheDirectory, numThreads }: ServedFileOptions): ServedFile {
  if (precision === 'fast') return { runner: 'llama', path: modelPath, cachePrecision: 'f16', flashAttention: true };
  using file = GgufFile.open(modelPath);
  const architecture = graphArchitecture(file);
  if (architecture !== null) {
    if (precision !== 'bf16') return { runner: 'graphs', path: modelPath, matrices: 'f32' };
    if (hasBf16Steps(architecture)) return { runner: 'graphs', path: modelPath, matrices: 'bf16' };
    throw new UnsupportedModelError(
      `precision bf16 does not support ${architecture.name} models such as ${basename(modelPath)}: use exact, strict or fast`,
    );
  }
  if (precision === 'bf16') {
    throw new UnsupportedModelError(
      `precision bf16 needs a model that the trainer supports, ${basename(modelPath)} is not: use exact, strict or fast`,
    );
  }
  const cachePrecision = precision === 'strict' ? 'f32' : 'f16';
  const path = isExact(file, EXACT_TYPES[precision])
    ? modelPath
    : copyInPrecision(file, cachePrecision, cacheDirectory, numThreads);
  return { runner: 'llama', path, cachePrecision, flashAttention: false };
}

/** Null if the graphs do not compute the model. */
function graphArchitecture(file: GgufFile): Architecture | null {
  try {
    const architecture = readArchitecture(file);
    return architecture.headSize % HEAD_GRANULARITY === 0 ? architecture : null;
  } catch (error) {
    if (error instanceof UnsupportedModelError) return null;
    throw error;
  }
}

/** @returns the path of the copy, which is made unless it is up to date */
function copyInPrecision(file: GgufFile, type: 'f32' | 'f16', cacheDirectory: string, numThreads: number): string {
  const { path: modelPath } = file;
  const name = copyName(modelPath, type);
  const { size, mtimeMs } = statSync(modelPath);
  const stamp = JSON.stringify({ sourceSizeBytes: size, sourceModifiedMs: Math.trunc(mtimeMs) });
  const directory = isWritable(dirname(modelPath)) ? dirname(modelPath) : cacheDirectory;
  const copy = join(directory, name);
  if (isUpToDate(copy, stamp)) return copy;
  mkdirSync(directory, { recursive: true });
  requireSpace(directory, file, type);
  quantizeModel(modelPath, copy, type, numThreads);
  replaceFile(stampFileOf(copy), (temporary) => writeFileSync(temporary, stamp));
  return copy;
}

/** Checks first: llama.cpp reports a full disk after minutes, as a failed iostream. */
function requireSpace(directory: string, file: GgufFile, type: 'f32' | 'f16'): void {
  const bytesPerWeight = type === 'f32' ? 4 : 2;
  const copyBytes = bytesPerWeight * parameterCount(file);
  const { bavail, bsize } = statfsSync(directory);
  if (bavail * bsize > copyBytes) return;
  throw new NativeError(
    'native.quantize_failed',
    `the disk of ${directory} has ${formatMegabytes(bavail * bsize, 0)} free, but the ${type === 'f32' ? 'single' : 'half'}-precision copy of the model needs ${formatMegabytes(copyBytes, 0)}: ` +
      'free some space, set TRAINYARD_DATA_DIR to a folder on another disk, or serve the file as it is with TRAINYARD_PRECISION=fast',
  );
}

function isExact(file: GgufFile, types: ReadonlySet<string>): boolean {
  return file.tensors.values().every(({ type }) => types.has(type.toLowerCase()));
}

/** The stamp is written after the copy, so it shows a finished copy of exactly this source. */
function isUpToDate(copy: string, stamp: string): boolean {
  try {
    return statSync(copy).size > 0 && readFileSync(stampFileOf(copy), 'utf8') === stamp;
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
