import { statSync } from 'node:fs';

import { weightBytes } from '@trainyard/decoder';
import { GgufFile, type LlamaModel } from '@trainyard/native';
import {
  type Architecture,
  contextLimit,
  readArchitecture,
  type WeightsMode,
  weightsModeOf,
  type WeightsSetting,
} from '@trainyard/transformer';

import { cacheSize } from './cache-size.ts';
import type { CacheLimits } from './cache-size.ts';
import { openServedFile } from './served-file.ts';
import type { ServedFileOptions } from './served-file.ts';

/** More than any step plans. */
export const BATCH_TOKENS = 1024;

export interface ModelMemory {
  /** Weights of the file that is actually loaded. */
  readonly weightBytes: number;
  readonly cacheBytes: number;
  /**
   * Rest of its process: runtime, vocabulary, logits of one batch, and attention scores if all are in memory at
   * once.
   */
  readonly processBytes: number;
}

/** Node, the computing library and its buffers: measured with the default model, rounded up. */
const RUNTIME_BYTES = 290e6;
/** Logits of the rows of a batch, 4 bytes each. With fewer rows, the texts of the tokens take the rest. */
const LOGIT_BYTES_PER_TOKEN = 1024 * 4;
/** The same without prompts' log-probabilities, measured with vocabularies of 49,152 and 151,936 tokens. */
const LEAST = { runtimeBytes: 380e6, bytesPerToken: 64 * 4 };
/**
 * Without flash attention: one head's scores per cell for the rows that llama.cpp computes at once, 4 bytes
 * each.
 */
const SCORE_BYTES_PER_CELL = 512 * 4;
/**
 * Reads vocabulary and header. Makes the copy in another precision if one is served, so that training finds it
 * while the model is not loaded.
 *
 * @returns `contextLength`: per sequence with this cache; `vocabulary`, which the caller must close
 * @throws {NativeError} if the file is missing or malformed, or the copy cannot be written
 */
export function inspectServedModel(options: ServedFileOptions & CacheLimits & { readonly weights?: WeightsSetting }): {
  readonly vocabulary: LlamaModel;
  readonly contextLength: number;
  readonly memory: ModelMemory;
} {
  const { served, vocabulary } = openServedFile(options);
  using file = GgufFile.open(served.path);
  const { metadata } = file;
  const { vocabSize, hasRecurrentState } = vocabulary;
  const { contextLength, sizeBytes } = cacheSize(served, { metadata, hasRecurrentState }, options);
  const mode = weightsModeOf(options.weights ?? 'resident', file);
  const architecture = served.runner === 'graphs' ? readArchitecture(file) : null;
  const heads = metadata.get(`${vocabulary.architecture}.attention.head_count`) ?? 1;
  const numHeads = Math.max(...(Array.isArray(heads) ? heads : [heads]).map(Number));
  const hasScores = served.runner === 'llama' && !served.flashAttention;
  return {
    vocabulary,
    contextLength: Math.min(contextLimit(file), contextLength),
    memory: {
      weightBytes:
        architecture === null || served.runner === 'llama'
          ? statSync(served.path).size
          : weightBytes(file, architecture, { matrices: served.matrices, mode }),
      cacheBytes: sizeBytes,
      processBytes:
        RUNTIME_BYTES +
        vocabSize * LOGIT_BYTES_PER_TOKEN +
        (architecture === null ? 0 : expertRowBytes(architecture)) +
        (hasScores ? numHeads * contextLength * SCORE_BYTES_PER_CELL : 0),
    },
  };
}

/**
 * Memory of the process of a model of the graphs in single precision, bytes, without keys and values, and without logits
 * of more rows than replies need.
 */
export function leastSamplingBytes(file: GgufFile): Readonly<Record<WeightsMode, number>> {
  const architecture = readArchitecture(file);
  const processBytes = LEAST.runtimeBytes + LEAST.bytesPerToken * architecture.vocabSize + expertRowBytes(architecture);
  const bytesIn = (mode: WeightsMode) => processBytes + weightBytes(file, architecture, { matrices: 'f32', mode });
  return { resident: bytesIn('resident'), streamed: bytesIn('streamed') };
}

/** Rows of a batch by expert. */
function expertRowBytes({ hiddenSize, experts }: Architecture): number {
  if (experts === null) return 0;
  const width = experts.count + experts.used * (2 * hiddenSize + 3 * experts.feedForwardSize);
  return 4 * BATCH_TOKENS * width;
}
