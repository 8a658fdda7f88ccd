import { statSync } from 'node:fs';

import { GgufFile, LlamaModel, type GgufValue } from '@trainyard/native';

import { servedModelPath } from './served-model.ts';

/** The memory that a model takes while it is loaded, estimated, bytes. */
export interface ModelMemory {
  /** Weights of the file that is really loaded. */
  readonly weightBytes: number;
  /** Keys and values of all its sequences. */
  readonly cacheBytes: number;
  /** Rest of its process: the runtime, the vocabulary, and the logits of one batch. */
  readonly processBytes: number;
}

/** Node, llama.cpp and its buffers: seen with the default model, rounded up. */
const RUNTIME_BYTES = 200e6;
/** Logits of the rows of a batch, 4 bytes each. */
const LOGIT_BYTES_PER_TOKEN = 1024 * 4;
/** llama.cpp rounds the cells of a cache up to a multiple of this. */
const CELL_BLOCK = 256;

/**
 * A model before its weights are loaded: its vocabulary, and what its header says. The half-precision copy is made where one is served, so that who trains on the
 * model finds it also while the model is not in memory.
 *
 * @param options.capacityTokens of the KV cache that the model will have
 * @returns `contextLength`: longest sequence that an engine on such a cache takes, tokens; `vocabulary` is the caller's to close
 * @throws {NativeError} when the file is missing or malformed, or the copy cannot be written
 */
export function inspectServedModel(options: Parameters<typeof servedModelPath>[0] & { capacityTokens: number }): {
  readonly vocabulary: LlamaModel;
  readonly contextLength: number;
  readonly memory: ModelMemory;
} {
  const path = servedModelPath(options);
  using file = GgufFile.open(path);
  const { metadata } = file;
  const vocabulary = LlamaModel.load(path, { vocabOnly: true });
  const numCells = Math.ceil(options.capacityTokens / CELL_BLOCK) * CELL_BLOCK;
  const trainedLength = Number(metadata.get(`${vocabulary.architecture}.context_length`) ?? Infinity);
  const bytesPerValue = options.precision === 'strict' ? 4 : 2;
  return {
    vocabulary,
    // The runner keeps a cell for itself.
    contextLength: Math.min(trainedLength, numCells - 1),
    memory: {
      weightBytes: statSync(path).size,
      cacheBytes: numCells * cachedValues(metadata) * bytesPerValue,
      processBytes: RUNTIME_BYTES + vocabulary.vocabSize * LOGIT_BYTES_PER_TOKEN,
    },
  };
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
