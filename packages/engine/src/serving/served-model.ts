import { GgufFile, LlamaModel, openBf16Library } from '@trainyard/native';
import { PagedDecoder } from '@trainyard/decoder';
import { LlamaRunner } from '../runner/llama-runner.ts';
import type { ModelRunner } from '../runner/model-runner.ts';
import { cacheSize } from './cache-size.ts';
import type { CacheLimits } from './cache-size.ts';
import { servedFile } from './served-file.ts';
import type { ServedFile, ServedFileOptions } from './served-file.ts';
import { windowWarning } from './window-warning.ts';

/** Tokens of one batch: more than any step plans, so that it is never the limit. */
const BATCH_TOKENS = 1024;

export interface ServedModelOptions extends ServedFileOptions {
  /** oneDNN, for precision `bf16`: the path of a file, or a name that the system finds. */
  readonly oneDnnPath: string;
}

export interface RunnerSizes extends CacheLimits {
  readonly numThreads: number;
}

/** A model that is about to be served: its vocabulary, and who will compute it. */
export class ServedModel implements Disposable {
  /** Has weights only where llama.cpp computes the model. */
  readonly vocabulary: LlamaModel;
  readonly #file: ServedFile;
  readonly #oneDnnPath: string;

  /** @throws {NativeError} when the file is missing, malformed, or no llama.cpp fits this machine */
  static load(options: ServedModelOptions): ServedModel {
    return new ServedModel(servedFile(options), options.oneDnnPath);
  }

  private constructor(file: ServedFile, oneDnnPath: string) {
    this.#file = file;
    this.#oneDnnPath = oneDnnPath;
    this.vocabulary = LlamaModel.load(file.path, { vocabOnly: file.runner === 'graphs' });
  }

  /** Whether the threads that compute it spin where they wait for each other, as llama.cpp's do: beside other work one step can then take as long as ten. */
  get spins(): boolean {
    return this.#file.runner === 'llama';
  }

  /** Reasons why it computes something else than it was made for. @param contextLength tokens that a sequence may have */
  warnings(contextLength: number): readonly string[] {
    using file = GgufFile.open(this.#file.path);
    const window = windowWarning(file, contextLength);
    return window === null ? [] : [window];
  }

  /** The caller closes it, before this. @throws {NativeError} when products of bf16 are wanted, and the library or the processor has none */
  openRunner({ numThreads, ...limits }: RunnerSizes): ModelRunner {
    const served = this.#file;
    using file = GgufFile.open(served.path);
    const { capacityTokens } = cacheSize(served, file.metadata, limits);
    const sizes = { maxSequences: limits.maxSequences, numThreads, batchTokens: BATCH_TOKENS };
    if (served.runner === 'graphs') {
      const bf16 = served.matrices === 'bf16' ? openBf16Library(this.#oneDnnPath, numThreads) : null;
      return PagedDecoder.open(served.path, { ...sizes, capacityTokens, bf16 });
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
