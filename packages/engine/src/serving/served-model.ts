import { basename } from 'node:path';
import { GgufFile, LlamaModel, openBf16Library } from '@trainyard/native';
import { PagedDecoder } from '@trainyard/decoder';
import { memoryProblem, type WeightsMode, weightsModeOf, type WeightsSetting } from '@trainyard/transformer';
import { LlamaRunner } from '../runner/llama-runner.ts';
import type { ModelRunner } from '../runner/model-runner.ts';
import { cacheSize } from './cache-size.ts';
import type { CacheLimits } from './cache-size.ts';
import { openServedFile } from './served-file.ts';
import type { ServedFile, ServedFileOptions } from './served-file.ts';
import { BATCH_TOKENS, leastSamplingBytes } from './served-model-memory.ts';
import { llamaWarning } from './llama-warning.ts';
import { windowWarning } from './window-warning.ts';

export interface ServedModelOptions extends ServedFileOptions {
  /** Path or library name of oneDNN, for precision `bf16`. */
  readonly oneDnnPath: string;
  /**
   * `streamed` keeps matrices of the graphs in the file: the same bits, less memory, slower for many rows. `auto`
   * decides by the machine's memory. Default `resident`.
   */
  readonly weights?: WeightsSetting;
}

export interface RunnerSizes extends CacheLimits {
  readonly numThreads: number;
}

export class ServedModel implements Disposable {
  /** Has weights only if llama.cpp computes the model. */
  readonly vocabulary: LlamaModel;
  readonly #file: ServedFile;
  readonly #options: ServedModelOptions;

  /** @throws {NativeError} if the file is missing or malformed, or no llama.cpp build fits this machine */
  static load(options: ServedModelOptions): ServedModel {
    const { served, vocabulary } = openServedFile(options);
    if (served.runner === 'graphs') return new ServedModel(served, vocabulary, options);
    vocabulary.close();
    return new ServedModel(served, LlamaModel.load(served.path), options);
  }

  private constructor(file: ServedFile, vocabulary: LlamaModel, options: ServedModelOptions) {
    this.#file = file;
    this.vocabulary = vocabulary;
    this.#options = options;
  }

  /** True if threads spin, as llama.cpp's do: next to other work a step can take ten times as long. */
  get spins(): boolean {
    return this.#file.runner === 'llama';
  }

  /** Reasons for which results differ from the model's training. @param contextLength maximum tokens per sequence */
  warnings(contextLength: number): readonly string[] {
    using file = GgufFile.open(this.#file.path);
    const window = windowWarning(file, contextLength, this.#file.runner);
    return [window, llamaWarning(file, this.#file.runner)].filter((warning) => warning !== null);
  }

  /**
   * The caller must close it before this.
   *
   * @throws {RangeError} if the machine has too little free memory; {NativeError} if bf16 is requested and the library or processor lacks it
   */
  openRunner({ numThreads, ...limits }: RunnerSizes): ModelRunner {
    const served = this.#file;
    using file = GgufFile.open(served.path);
    const { hasRecurrentState } = this.vocabulary;
    const { capacityTokens } = cacheSize(served, { metadata: file.metadata, hasRecurrentState }, limits);
    const sizes = { maxSequences: limits.maxSequences, numThreads, batchTokens: BATCH_TOKENS };
    if (served.runner === 'graphs') {
      const { oneDnnPath } = this.#options;
      const weights = weightsModeOf(this.#options.weights ?? 'resident', file);
      if (served.matrices === 'f32') requireMemory(file, weights);
      const bf16 = served.matrices === 'bf16' ? openBf16Library(oneDnnPath, numThreads) : null;
      return PagedDecoder.open(served.path, { ...sizes, capacityTokens, bf16, weights });
    }
    const { cachePrecision, flashAttention } = served;
    return new LlamaRunner(this.vocabulary, {
      ...sizes,
      contextTokens: capacityTokens,
      cachePrecision,
      flashAttention,
    });
  }

  close(): void {
    this.vocabulary.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** @throws {RangeError} with the need, the free memory and the remedy */
function requireMemory(file: GgufFile, weights: WeightsMode): void {
  const problem = memoryProblem(weights, leastSamplingBytes(file));
  if (problem !== null) throw new RangeError(`cannot load ${basename(file.path)}: ${problem}`);
}
