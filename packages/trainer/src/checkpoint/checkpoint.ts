/**
 * A checkpoint is a directory: the adapter for PEFT, the same adapter for llama.cpp, the optimizer's state, metrics,
 * the adapter's digest and those of all files.
 *
 *   adapter_model.safetensors  adapter_config.json  adapter.gguf  optimizer.safetensors  metrics.json  digest  SHA256SUMS
 */
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { shown, writeGguf } from '@trainyard/native';
import {
  type Architecture,
  checkFiles,
  DamagedFileError,
  fileDigest,
  fileSums,
  orderValueHeads,
  readFileSums,
  requireDigest,
  SUMS_FILE,
} from '@trainyard/transformer';
import { replaceDirectory, writeDurableText } from './durable-directory.ts';
import { TrainerError } from '../contract/errors.ts';
import { ggufAdapter, peftTensors, type AdapterTensor } from '../model/adapter-tensors.ts';
import type { LoraParameters } from '../model/policy-model.ts';
import { freshOptimizerState, type JobKind, type OptimizerState } from '../optimizer/adamw.ts';
import { peftConfig, scaleMetadata, shapeDifferences } from './adapter-config.ts';
import { readSafetensors, writeSafetensors } from './safetensors.ts';

export const ADAPTER_FILE = 'adapter_model.safetensors';
export const ADAPTER_CONFIG_FILE = 'adapter_config.json';
export const GGUF_FILE = 'adapter.gguf';
export const OPTIMIZER_FILE = 'optimizer.safetensors';
const METRICS_FILE = 'metrics.json';
const DIGEST_FILE = 'digest';

export interface CheckpointContent {
  readonly lora: LoraParameters;
  readonly architecture: Architecture;
  readonly optimizer: OptimizerState;
  readonly metrics: Readonly<Record<string, number>>;
}

/**
 * The directory appears complete or not at all.
 *
 * @returns sha256 of `adapter_model.safetensors`, hex: equal weights and scale give equal digests
 * @throws {TrainerError} `trainer.disk_full`
 */
export function writeCheckpoint(directory: string, checkpoint: CheckpointContent): string {
  return replaceDirectory(directory, (temporary) => writeCheckpointFiles(temporary, checkpoint));
}

/** @param directory empty */
export function writeCheckpointFiles(directory: string, { optimizer, ...adapter }: CheckpointContent): string {
  const optimizerDigest = writeOptimizer(directory, adapter.lora, optimizer);
  return writeAdapterFiles(directory, adapter, { [OPTIMIZER_FILE]: optimizerDigest });
}

/** Writes only the state that training resumes from, into an empty directory. @returns as `writeCheckpoint` */
export function writeTrainingState(
  directory: string,
  { lora, architecture, optimizer }: Omit<CheckpointContent, 'metrics'>,
): string {
  const optimizerDigest = writeOptimizer(directory, lora, optimizer);
  const digest = writeAdapter(directory, lora, architecture);
  writeDigests(directory, digest, { [OPTIMIZER_FILE]: optimizerDigest });
  return digest;
}

/**
 * Writes a checkpoint without the optimizer's state, from which training can start.
 *
 * @param written digests of files that are already in the directory, by name
 * @returns as `writeCheckpoint`
 */
export function writeAdapterFiles(
  directory: string,
  { lora, architecture, metrics }: Omit<CheckpointContent, 'optimizer'>,
  written: Readonly<Record<string, string>> = {},
): string {
  const digest = writeAdapter(directory, lora, architecture);
  const { alpha, tensors } = ggufAdapter(lora, architecture);
  const metadata = {
    'general.type': 'adapter',
    'general.architecture': architecture.name,
    'adapter.type': 'lora',
    'adapter.lora.alpha': alpha,
  };
  writeGguf(join(directory, GGUF_FILE), metadata, tensors);
  writeDurableText(join(directory, METRICS_FILE), `${JSON.stringify(metrics, null, 2)}\n`);
  writeDigests(directory, digest, written);
  return digest;
}

/** Files that were hashed while written are not read again. */
function writeDigests(directory: string, digest: string, written: Readonly<Record<string, string>>): void {
  writeDurableText(join(directory, DIGEST_FILE), `${digest}\n`);
  writeDurableText(join(directory, SUMS_FILE), fileSums(directory, { ...written, [ADAPTER_FILE]: digest }));
}

/**
 * Reads a checkpoint's weights into `lora`. On an error nothing is changed.
 *
 * @returns the optimizer's state; a fresh one if the directory has none (it may be deleted to save space), or
 * one of another kind of job
 * @throws {TrainerError} `trainer.checkpoint_damaged` if a file differs from its digest;
 * `trainer.checkpoint_unreadable` if one is missing or of another adapter shape
 */
export function readCheckpoint(directory: string, lora: LoraParameters, jobKind: JobKind = 'rl'): OptimizerState {
  const digest = readText(directory, DIGEST_FILE).trim();
  const optimizer = existsSync(join(directory, OPTIMIZER_FILE))
    ? readOptimizer(directory, lora, jobKind)
    : freshOptimizerState(lora.tensors, jobKind);
  readAdapter(directory, lora, digest);
  return optimizer;
}

/** @throws {TrainerError} `trainer.checkpoint_unreadable` */
export function checkpointDigest(directory: string): string {
  return readText(directory, DIGEST_FILE).trim();
}

/** @returns sha256 of the weights file, hex; it covers everything that decides the adapter's computation */
function writeAdapter(directory: string, lora: LoraParameters, architecture: Architecture): string {
  const config = peftConfig(lora.config, architecture);
  writeDurableText(join(directory, ADAPTER_CONFIG_FILE), `${JSON.stringify(config, null, 2)}\n`);
  // transformers and PEFT require a format name. Tensors do not give the scales: without them, equal weights of
  // other scales would have the same digest.
  const metadata = { format: 'pt', ...scaleMetadata(lora.config) };
  return writeSafetensors(join(directory, ADAPTER_FILE), peftTensors(lora), metadata);
}

/**
 * Compares files of a checkpoint with their recorded digests.
 *
 * @param names default: all that have a digest
 * @throws {TrainerError} `trainer.checkpoint_damaged`, also if one is missing
 */
export function checkCheckpoint(directory: string, names?: readonly string[]): void {
  asDamage(() => checkFiles(directory, names ?? [...(readFileSums(directory)?.keys() ?? [])]));
}

/** Reads PEFT's two files if everything fits and the weights file has that sha256. */
export function readAdapter(directory: string, lora: LoraParameters, digest: string): void {
  checkCheckpoint(directory, [ADAPTER_CONFIG_FILE, DIGEST_FILE]);
  const config = readJson(directory, ADAPTER_CONFIG_FILE);
  for (const { key, found, expected } of shapeDifferences(config, lora.config))
    throw unreadable(directory, `its adapter has ${key} ${shown(found)}, the model's has ${JSON.stringify(expected)}`);
  const read = peftTensors(lora);
  readInto(join(directory, ADAPTER_FILE), read, digest);
  for (const [i, { value, valueHeads }] of lora.tensors.entries())
    if (valueHeads !== null) value.set(orderValueHeads(read[i]!.data, valueHeads, 'tiles'));
}

/** @returns sha256 of the file, hex */
function writeOptimizer(directory: string, lora: LoraParameters, optimizer: OptimizerState): string {
  return writeSafetensors(join(directory, OPTIMIZER_FILE), optimizerTensors(lora, optimizer), {
    objective: optimizer.jobKind,
    num_steps: String(optimizer.numSteps),
  });
}

function readOptimizer(directory: string, lora: LoraParameters, jobKind: JobKind): OptimizerState {
  const optimizer = freshOptimizerState(lora.tensors, jobKind);
  checkCheckpoint(directory, [OPTIMIZER_FILE]);
  const metadata = readInto(join(directory, OPTIMIZER_FILE), optimizerTensors(lora, optimizer));
  const numSteps = Number(metadata['num_steps']);
  if (!Number.isSafeInteger(numSteps) || numSteps < 0) {
    throw unreadable(directory, `${OPTIMIZER_FILE} has num_steps ${String(metadata['num_steps'])}`);
  }
  if (metadata['objective'] !== jobKind) return freshOptimizerState(lora.tensors, jobKind);
  optimizer.numSteps = numSteps;
  return optimizer;
}

function optimizerTensors(lora: LoraParameters, { moments }: OptimizerState): AdapterTensor[] {
  return lora.tensors.flatMap(({ name, dims }) => {
    const { m, v } = moments.get(name)!;
    return [
      { name: `${name}.m`, dims, data: m },
      { name: `${name}.v`, dims, data: v },
    ];
  });
}

/** Fills the tensors from a file with exactly these, all finite; checks everything first. */
function readInto(path: string, tensors: readonly AdapterTensor[], digest?: string): Readonly<Record<string, string>> {
  // Comes first, because a damaged header causes other errors too.
  if (digest !== undefined && existsSync(path))
    asDamage(() => requireDigest(basename(path), fileDigest(path).sha256, digest));
  const file = readSafetensors(path);
  if (file.tensors.size !== tensors.length)
    throw unreadable(path, `it has ${file.tensors.size} tensors, expected ${tensors.length}`);
  const sources = tensors.map(({ name, dims }) => {
    const source = file.tensors.get(name);
    if (source === undefined) throw unreadable(path, `tensor ${name} is missing`);
    if (source.dims.join() !== dims.join()) {
      throw unreadable(path, `tensor ${name} is [${source.dims.join(', ')}], expected [${dims.join(', ')}]`);
    }
    if (!source.data.every(Number.isFinite)) throw unreadable(path, `tensor ${name} has values that are not finite`);
    return source.data;
  });
  tensors.forEach(({ data }, i) => data.set(sources[i]!));
  return file.metadata;
}

function readText(directory: string, file: string): string {
  try {
    return readFileSync(join(directory, file), 'utf8');
  } catch (cause) {
    throw unreadable(directory, (cause as Error).message, cause);
  }
}

function readJson(directory: string, file: string): Record<string, unknown> {
  const text = readText(directory, file);
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return { ...value };
  } catch (cause) {
    throw unreadable(directory, `${file} is not JSON`, cause);
  }
  throw unreadable(directory, `${file} is not an object`);
}

/** Failures become trainer errors. */
function asDamage<Result>(compare: () => Result): Result {
  try {
    return compare();
  } catch (error) {
    if (!(error instanceof DamagedFileError)) throw error;
    throw new TrainerError('trainer.checkpoint_damaged', error.message, { cause: error });
  }
}

function unreadable(where: string, message: string, cause?: unknown): TrainerError {
  return new TrainerError('trainer.checkpoint_unreadable', `${where}: ${message}`, { cause });
}
