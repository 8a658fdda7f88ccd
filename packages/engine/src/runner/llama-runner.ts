import { LlamaAdapter, LlamaContext, NativeError } from '@trainyard/native';
import type { LlamaContextOptions, LlamaModel } from '@trainyard/native';
import { IdleCores } from './idle-cores.ts';
import { FlatLogits, KvFullError } from './model-runner.ts';
import type { LogitRows, ModelRunner, RunnerAdapter, StepBatch } from './model-runner.ts';
import { ThreadGovernor } from './thread-governor.ts';

/** The highest number of sequences that llama.cpp supports. */
const MAX_SEQUENCES = 256;

/**
 * llama.cpp under the scheduler: one context with one KV memory for all sequences.
 *
 * ggml multiplies a single row by other code than several, with other roundings: a token computed alone has logits that differ by up to some hundredths from
 * the same token computed in company. Batches of two tokens and more agree to the bit, of any size, anywhere in the memory. So a lone token that must be
 * reproducible gets a companion, in a sequence and a cell of its own that are empty again afterwards.
 */
export class LlamaRunner implements ModelRunner {
  readonly vocabSize: number;
  readonly capacityTokens: number;
  readonly contextLength: number;
  readonly maxSequences: number;
  readonly batchTokens: number;
  /** An adapter is a setting of the context. */
  readonly adaptersPerBatch = 1;
  /** A cell is a token. */
  readonly shareGranularity = 1;
  readonly #model: LlamaModel;
  readonly #context: LlamaContext;
  readonly #threads: ThreadGovernor;
  readonly #idleCores = new IdleCores();
  #numThreads: number;
  /** The sequence of the companion. */
  readonly #companion: number;

  /** The model stays the caller's; the context made here is closed with the runner. */
  constructor(model: LlamaModel, options: LlamaContextOptions) {
    this.#model = model;
    const maxSequences = Math.min(options.maxSequences + 1, MAX_SEQUENCES);
    this.#context = new LlamaContext(model, { ...options, maxSequences });
    this.#companion = maxSequences - 1;
    this.#threads = new ThreadGovernor(options.numThreads);
    this.#numThreads = options.numThreads;
    this.vocabSize = model.vocabSize;
    this.capacityTokens = this.#context.contextTokens - 1;
    this.contextLength = Math.min(model.contextLength, this.capacityTokens);
    this.maxSequences = this.#companion;
    this.batchTokens = this.#context.batchTokens;
  }

  run(batch: StepBatch): LogitRows {
    const context = this.#context;
    context.setAdapter(adapterOf(batch));
    context.batch.clear();
    for (let i = 0; i < batch.length; i++) {
      context.batch.add(batch.tokens[i]!, batch.positions[i]!, batch.sequences[i]!, batch.wantsLogits[i] === 1);
    }
    const hasCompanion = batch.length === 1 && batch.isReproducible;
    if (hasCompanion) context.batch.add(batch.tokens[0]!, 0, this.#companion, false);
    this.#useThreads(batch.leavesCore ? Math.max(1, this.#threads.numThreads - 1) : this.#threads.numThreads);
    const startedAtMs = performance.now();
    const cpuBefore = process.cpuUsage();
    try {
      context.decode();
    } catch (error) {
      if (error instanceof NativeError && error.code === 'native.kv_full')
        throw new KvFullError(error.message, { cause: error });
      throw error;
    }
    const { user, system } = process.cpuUsage(cpuBefore); // µs, of all threads
    const nowMs = performance.now();
    // Beside a thread of ours the figures say nothing about others.
    if (!batch.leavesCore) {
      const idleCores = this.#threads.hasGivenUp ? this.#idleCores.observe(nowMs) : null;
      this.#threads.observe({ nowMs, wallMs: nowMs - startedAtMs, cpuMs: (user + system) / 1000, idleCores });
      if (!this.#threads.hasGivenUp) this.#idleCores.forget();
    }
    if (hasCompanion) context.removeSequence(this.#companion, 0);
    return new FlatLogits(context.logits(), this.vocabSize);
  }

  #useThreads(count: number): void {
    if (count === this.#numThreads) return;
    this.#context.setNumThreads(count);
    this.#numThreads = count;
  }

  share(from: number, to: number, length: number): void {
    this.#context.copySequence(from, to, length);
  }

  forget(sequence: number, fromPosition: number): void {
    this.#context.removeSequence(sequence, fromPosition);
  }

  loadAdapter(path: string): RunnerAdapter {
    return LlamaAdapter.load(this.#model, path);
  }

  close(): void {
    this.#context.close();
  }
}

/** The adapter shared by all tokens of a batch. */
function adapterOf({ adapters }: StepBatch): LlamaAdapter | null {
  if (adapters.length > 1) throw new RangeError(`a batch has one adapter here, got ${adapters.length}`);
  const adapter = adapters[0] ?? null;
  if (adapter === null || adapter instanceof LlamaAdapter) return adapter;
  throw new TypeError('the adapter was loaded by another runner');
}
