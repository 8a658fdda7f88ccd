import { statSync } from 'node:fs';

import { GgufFile, LlamaModel, type GgufValue } from '@trainyard/native';

import { PagedAttention } from '../attention/paged-attention.ts';
import { servedFile } from './served-file.ts';
import type { ServedFile, ServedFileOptions } from './served-file.ts';
import type { RunnerSizes } from './served-model.ts';

/** The memory that a model takes while it is loaded, estimated, bytes. */
export interface ModelMemory {
  /** Weights of the file that is really loaded. */
  readonly weightBytes: number;
  /** Keys and values of all its sequences. */
  readonly cacheBytes: number;
  /** Rest of its process: the runtime, the vocabulary, and the logits of one batch. */
  readonly processBytes: number;
}

/** Node, the library that computes and its buffers: seen with the default model, rounded up. */
const RUNTIME_BYTES = 200e6;
/** Logits of the rows of a batch, 4 bytes each. */
const LOGIT_BYTES_PER_TOKEN = 1024 * 4;
/** llama.cpp rounds the cells of a cache up to a multiple of this, and the runner keeps one for itself. */
const CELL_BLOCK = 256;

/**
 * A model before its weights are loaded: its vocabulary, and what its header says. A copy in another precision is made where one is served, so that who trains on
 * the model finds it also while the model is not in memory.
 *
 * @param options.capacityTokens of the KV cache that the model will have
 * @returns `contextLength`: longest sequence that an engine on such a cache takes, tokens; `vocabulary` is the caller's to close
 * @throws {NativeError} when the file is missing or malformed, or the copy cannot be written
 */
export function inspectServedModel(options: ServedFileOptions & Pick<RunnerSizes, 'capacityTokens' | 'maxSequences'>): {
  readonly vocabulary: LlamaModel;
  readonly contextLength: number;
  readonly memory: ModelMemory;
} {
  const served = servedFile(options);
  using file = GgufFile.open(served.path);
  const { metadata } = file;
  const vocabulary = LlamaModel.load(served.path, { vocabOnly: true });
  const { numCells, contextLength } = cacheSizes(served, options);
  const trainedLength = Number(metadata.get(`${vocabulary.architecture}.context_length`) ?? Infinity);
  const bytesPerValue = served.runner === 'llama' && served.cachePrecision === 'f16' ? 2 : 4;
  return {
    vocabulary,
    contextLength: Math.min(trainedLength, contextLength),
    memory: {
      weightBytes: served.runner === 'llama' ? statSync(served.path).size : graphWeightBytes(file),
      cacheBytes: numCells * cachedValues(metadata) * bytesPerValue,
      processBytes: RUNTIME_BYTES + vocabulary.vocabSize * LOGIT_BYTES_PER_TOKEN,
    },
  };
}

function cacheSizes(
  { runner }: ServedFile,
  { capacityTokens, maxSequences }: Pick<RunnerSizes, 'capacityTokens' | 'maxSequences'>,
): { numCells: number; contextLength: number } {
  if (runner === 'graphs')
    return { numCells: PagedAttention.numCells({ capacityTokens, maxSequences }), contextLength: capacityTokens };
  const numCells = Math.ceil(capacityTokens / CELL_BLOCK) * CELL_BLOCK;
  return { numCells, contextLength: numCells - 1 };
}

/** Every weight in single precision; an embedding that is the head, too, is there twice: as it is, and laid out for the product. */
function graphWeightBytes({ tensors }: GgufFile): number {
  const sizeOf = (name: string) => 4 * (tensors.get(name)?.dims ?? [0]).reduce((product, dim) => product * dim, 1);
  const all = tensors.keys().reduce((sum, name) => sum + sizeOf(name), 0);
  return tensors.has('output.weight') ? all : all + sizeOf('token_embd.weight');
}

/** Keys and values of one token, over all layers; of a model without the sizes of attention none. */
export function cachedValues(metadata: ReadonlyMap<string, GgufValue>): number {
  const architecture = String(metadata.get('general.architecture'));
  const number = (key: string): number | null => {
    const value = metadata.get(`${architecture}.${key}`);
    return typeof value === 'number' || typeof value === 'bigint' ? Number(value) : null;
  };
  const numHeads = number('attention.head_count') ?? 1;
  const byLayer = metadata.get(`${architecture}.attention.head_count_kv`);
  const numCachedHeads = Array.isArray(byLayer)
    ? byLayer.reduce<number>((sum, heads) => sum + Number(heads), 0)
    : (number('block_count') ?? 0) * (number('attention.head_count_kv') ?? numHeads);
  const headSize = (number('embedding_length') ?? 0) / numHeads;
  const [keySize, valueSize] = [number('attention.key_length'), number('attention.value_length')];
  return numCachedHeads * ((keySize ?? headSize) + (valueSize ?? headSize));
}
