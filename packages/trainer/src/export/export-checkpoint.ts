/** The trainer's log-probabilities → files of the format → their log-probabilities → a parity report. */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { GgufFile, LlamaModel, quantizeModel } from '@trainyard/native';
import { Tokenizer } from '@trainyard/tokenizer';
import { type Architecture, fileDigest, type LoraConfig, streamWeights } from '@trainyard/transformer';
import {
  ADAPTER_CONFIG_FILE,
  ADAPTER_FILE,
  checkpointDigest,
  GGUF_FILE,
  readAdapter,
  writeAdapterFiles,
} from '../checkpoint/checkpoint.ts';
import { diskFault, writeDurableText } from '../checkpoint/durable-directory.ts';
import { TrainerError } from '../contract/errors.ts';
import { initialLoraParameters } from '../model/lora-parameters.ts';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import type { ComputeOptions } from '../model/policy-model.ts';
import { llamaLogprobs } from './llama-logprobs.ts';
import { writeMergedGguf } from './merged-gguf.ts';
import { openMergedSafetensors, writeMergedSafetensors } from './merged-safetensors.ts';
import { MergedWeights, type MergedType } from './merged-weights.ts';
import { parityReport, parityRow, parityTokens, type ParityReport } from './parity.ts';
import { writeTokenizerFiles } from './tokenizer-files.ts';
import { trainableArchitecture } from '../model/trainable-architecture.ts';

export type ExportFormat = 'peft' | 'gguf-adapter' | 'merged-gguf' | 'merged-safetensors';

export interface ExportRequest {
  /** GGUF file of the base model. */
  readonly modelPath: string;
  /** Mentioned in files. */
  readonly baseModelId: string;
  readonly lora: LoraConfig;
  /**
   * Null: nothing was trained yet. Merged formats are then the base model, adapters those that the first job
   * starts from.
   */
  readonly checkpointDirectory: string | null;
  readonly format: ExportFormat;
  /** Tensors in merged formats. */
  readonly type: MergedType;
  /** Must be empty; unusable after a failure. */
  readonly outputDirectory: string;
}

export interface ExportedFile {
  readonly name: string;
  readonly sizeBytes: number;
  /** hex */
  readonly sha256: string;
}

export interface ExportResult {
  /** Sorted by name, including `parity.json`. */
  readonly files: readonly ExportedFile[];
  readonly parity: ParityReport;
}

export interface ExportOptions extends ComputeOptions {
  readonly numThreads: number;
}

const MERGED_GGUF_FILE = 'model.gguf';
const PARITY_FILE = 'parity.json';

/** Types that llama.cpp multiplies directly; for all others it rounds the activations. */
const UNQUANTIZED = new Set(['f32', 'f16', 'bf16']);

/**
 * Writes a checkpoint in a public format and runs the written files.
 *
 * @throws {TrainerError} `trainer.architecture_unsupported`, `trainer.checkpoint_unreadable`,
 * `trainer.config_invalid`, `trainer.non_finite`, `trainer.export_differs`, `trainer.disk_full`,
 * `trainer.cancelled`; {NativeError}, {TokenizerError}
 */
export async function exportCheckpoint(request: ExportRequest, options: ExportOptions): Promise<ExportResult> {
  const { outputDirectory, modelPath } = request;
  try {
    using source = GgufFile.open(modelPath);
    using vocabulary = LlamaModel.load(modelPath, { vocabOnly: true });
    const job: ExportJob = {
      request,
      options,
      source,
      architecture: trainableArchitecture(source),
      vocabulary,
      tokenizer: Tokenizer.fromModel(vocabulary),
    };
    const tokenIds = parityTokens(job.tokenizer);
    const trained = await trainerLogprobs(job, request.checkpointDirectory, tokenIds);
    const exported = await FORMATS[request.format](job, tokenIds);
    const parity = parityReport({ ...trained, exported: exported.logprobs }, exported.computedBy);
    writeDurableText(join(outputDirectory, PARITY_FILE), `${JSON.stringify(parity, null, 2)}\n`);
    const files = readdirSync(outputDirectory).toSorted();
    return { files: files.map((name) => ({ name, ...fileDigest(join(outputDirectory, name)) })), parity };
  } catch (error) {
    // Graphs, llama.cpp and files report an abort in different ways.
    const { signal } = options;
    if (signal?.aborted === true)
      throw new TrainerError('trainer.cancelled', 'the export was cancelled', { cause: signal.reason });
    throw diskFault(error, outputDirectory);
  }
}

interface ExportJob {
  readonly request: ExportRequest;
  readonly options: ExportOptions;
  readonly source: GgufFile;
  readonly architecture: Architecture;
  readonly vocabulary: LlamaModel;
  readonly tokenizer: Tokenizer;
}

interface ExportedLogprobs {
  readonly logprobs: ArrayLike<number>;
  readonly computedBy: ParityReport['computedBy'];
}

const FORMATS: Readonly<Record<ExportFormat, (job: ExportJob, tokenIds: Int32Array) => Promise<ExportedLogprobs>>> = {
  peft: exportPeft,
  'gguf-adapter': exportGgufAdapter,
  'merged-gguf': exportMergedGguf,
  'merged-safetensors': exportMergedSafetensors,
};

async function exportPeft(job: ExportJob, tokenIds: Int32Array): Promise<ExportedLogprobs> {
  const { outputDirectory, baseModelId } = job.request;
  const digest = withCheckpoint(job, (checkpoint) => {
    copyFileSync(join(checkpoint, ADAPTER_FILE), join(outputDirectory, ADAPTER_FILE));
    const config = JSON.parse(readFileSync(join(checkpoint, ADAPTER_CONFIG_FILE), 'utf8')) as object;
    const named = { ...config, base_model_name_or_path: baseModelId };
    writeDurableText(join(outputDirectory, ADAPTER_CONFIG_FILE), `${JSON.stringify(named, null, 2)}\n`);
    return checkpointDigest(checkpoint);
  });
  const { trainer } = await trainerLogprobs(job, outputDirectory, tokenIds, digest);
  return { logprobs: trainer, computedBy: 'trainer' };
}

async function exportGgufAdapter(job: ExportJob, tokenIds: Int32Array): Promise<ExportedLogprobs> {
  const { outputDirectory, modelPath } = job.request;
  const adapterPath = join(outputDirectory, GGUF_FILE);
  withCheckpoint(job, (checkpoint) => copyFileSync(join(checkpoint, GGUF_FILE), adapterPath));
  const isQuantized = [...job.source.tensors.values()].some(({ type }) => !UNQUANTIZED.has(type));
  if (!isQuantized) return await runByLlama(job, { modelPath, adapterPath }, tokenIds);
  const halfPath = join(outputDirectory, 'base.gguf');
  try {
    quantizeModel(modelPath, halfPath, 'f16', job.options.numThreads);
    return await runByLlama(job, { modelPath: halfPath, adapterPath }, tokenIds);
  } finally {
    rmSync(halfPath, { force: true });
  }
}

async function exportMergedGguf(job: ExportJob, tokenIds: Int32Array): Promise<ExportedLogprobs> {
  const modelPath = join(job.request.outputDirectory, MERGED_GGUF_FILE);
  const merged = { weights: mergedWeights(job), type: job.request.type };
  await writeMergedGguf(modelPath, job.source, merged, job.options);
  return await runByLlama(job, { modelPath, adapterPath: null }, tokenIds);
}

async function exportMergedSafetensors(job: ExportJob, tokenIds: Int32Array): Promise<ExportedLogprobs> {
  const { source, architecture, tokenizer, vocabulary, options } = job;
  const { outputDirectory, type } = job.request;
  const facts = {
    contextLength: Number(source.metadata.get(`${architecture.name}.context_length`) ?? 0) || vocabulary.contextLength,
    bosTokenId: tokenizer.bosTokenId,
    eosTokenId: tokenizer.eosTokenId,
    hasTiedEmbeddings: !source.tensors.has('output.weight'),
  };
  const model = { source, architecture, facts, type };
  await writeMergedSafetensors(outputDirectory, model, mergedWeights(job), options);
  writeTokenizerFiles(outputDirectory, source, { vocabulary, tokenizer, contextLength: facts.contextLength });
  const written = openMergedSafetensors(outputDirectory, options.numThreads);
  try {
    const { logprobs } = await written.forward(parityRow(tokenIds), { ...options, withoutAdapter: true });
    return { logprobs, computedBy: 'trainer' };
  } finally {
    written.close();
  }
}

async function runByLlama(
  job: ExportJob,
  files: { readonly modelPath: string; readonly adapterPath: string | null },
  tokenIds: Int32Array,
): Promise<ExportedLogprobs> {
  return { logprobs: await llamaLogprobs(files, tokenIds, job.options), computedBy: 'llama.cpp' };
}

/** Values under the adapter and under the base model, whose weights stay in their file. */
async function trainerLogprobs(
  job: ExportJob,
  directory: string | null,
  tokenIds: Int32Array,
  digest?: string,
): Promise<{ trainer: Float32Array; base: Float32Array }> {
  const { source, architecture, request, options } = job;
  const { lora } = request;
  const { numThreads } = options;
  const model = new OrtPolicyModel(architecture, streamWeights(source, architecture), { lora, numThreads });
  try {
    const row = parityRow(tokenIds);
    const { logprobs: base } = await model.forward(row, { ...options, withoutAdapter: true });
    if (directory === null) return { trainer: base, base };
    readAdapter(directory, model.lora, digest ?? checkpointDigest(directory));
    return { trainer: (await model.forward(row, options)).logprobs, base };
  } finally {
    model.close();
  }
}

function mergedWeights(job: ExportJob): MergedWeights {
  const { source, architecture, request } = job;
  const { checkpointDirectory, lora: config } = request;
  if (checkpointDirectory === null) return new MergedWeights(source, architecture, null);
  const lora = initialLoraParameters(architecture, config);
  readAdapter(checkpointDirectory, lora, checkpointDigest(checkpointDirectory));
  return new MergedWeights(source, architecture, lora);
}

/** If nothing was trained, the files are the first job's initial adapter, which changes nothing. */
function withCheckpoint<Result>({ request, architecture }: ExportJob, use: (directory: string) => Result): Result {
  if (request.checkpointDirectory !== null) return use(request.checkpointDirectory);
  const directory = join(request.outputDirectory, 'untrained');
  try {
    mkdirSync(directory);
    const lora = initialLoraParameters(architecture, request.lora);
    writeAdapterFiles(directory, { lora, architecture, metrics: {} });
    return use(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
