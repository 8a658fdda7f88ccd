import { LlamaAdapter, LlamaContext } from '@trainyard/native';
import type { LlamaContextOptions, LlamaModel } from '@trainyard/native';
import { CellShelf } from './cell-shelf.ts';
import { decodeCalls } from './decode-calls.ts';
import { IdleCores } from './idle-cores.ts';
import { FlatLogits, KvFullError } from './model-runner.ts';
import type { LogitRows, ModelRunner, RunnerAdapter, StepBatch } from './model-runner.ts';
import { ThreadGovernor } from './thread-governor.ts';

/** Limit of llama.cpp. */
const MAX_SEQUENCES = 256;
const TILE_ROWS = 64;
/**
 * Moving cells out and back takes 16 µs per token of SmolLM2-135M, scanning them 0.4 to 0.9 µs per row: the cost
 * of 20 to 40 rows, more if fewer heads share keys and values.
 */
const IDLE_ROWS = 64;

/** Default number kept for finished sequences, which hold the idle cells. A recurrent state cannot be moved by cells. */
export function shelfTokensOf(capacityTokens: number, hasRecurrentState: boolean): number {
  return hasRecurrentState ? 0 : Math.ceil(capacityTokens / 4);
}

/**
 * Runner on llama.cpp: one context with one KV memory for all sequences. Each row scans all its cells, so idle
 * ones wait on a shelf outside. Many sequences are decoded in calls below the size of ggml's tiles.
 *
 * ggml multiplies a single row by different code: logits of a token alone differ by some hundredths, while
 * batches of two or more tokens agree to the bit. So a lone token that must be reproducible gets a companion in
 * its own sequence.
 */
export class LlamaRunner implements ModelRunner {
  readonly vocabSize: number;
  readonly capacityTokens: number;
  readonly contextLength: number;
  readonly maxSequences: number;
  readonly batchTokens: number;
  /** An adapter is a setting of the context. */
  readonly adaptersPerBatch = 1;
  /** A cell is a token; a recurrent state cannot be shared, since only that of the last token is there. */
  readonly shareGranularity: number;
  readonly #model: LlamaModel;
  readonly #context: LlamaContext;
  readonly #cells: CellShelf;
  readonly #threads: ThreadGovernor;
  readonly #idleCores = new IdleCores();
  #numThreads: number;
  /** Rows per call from which on attention is computed in tiles. */
  readonly #tileRows: number;
  /** Sequence of the companion, also used for moving cells to and from the shelf. */
  readonly #companion: number;
  #logits = new Float32Array(0);

  /** The caller keeps the model; the context made here is closed with the runner. */
  constructor(model: LlamaModel, options: LlamaContextOptions) {
    this.#model = model;
    const maxSequences = Math.min(options.maxSequences + 1, MAX_SEQUENCES);
    this.#context = new LlamaContext(model, { ...options, maxSequences });
    this.#companion = maxSequences - 1;
    this.#threads = new ThreadGovernor(options.numThreads);
    this.#numThreads = options.numThreads;
    // Only flash attention has tiles.
    this.#tileRows = this.#context.flashAttention ? TILE_ROWS : Infinity;
    this.vocabSize = model.vocabSize;
    this.shareGranularity = model.hasRecurrentState ? Infinity : 1;
    this.capacityTokens = this.#context.contextTokens - 1;
    this.contextLength = Math.min(model.contextLength, this.capacityTokens);
    this.maxSequences = this.#companion;
    this.batchTokens = this.#context.batchTokens;
    this.#cells = new CellShelf(this.#context, {
      spareSequence: this.#companion,
      shelfTokens: shelfTokensOf(this.capacityTokens, model.hasRecurrentState),
      idleRows: IDLE_ROWS,
    });
  }

  /** Cells that every row scans. */
  get residentCells(): number {
    return this.#cells.numResident;
  }
  get shelvedCells(): number {
    return this.#cells.numShelved;
  }

  run(batch: StepBatch): LogitRows {
    const free = this.capacityTokens - this.#cells.numCells;
    if (batch.length > free)
      throw new KvFullError(`${batch.length} cells wanted, ${free} of ${this.capacityTokens} free`);
    const rows = batch.sequences.subarray(0, batch.length);
    const sequences = new Set(rows);
    this.#cells.prepare(sequences);
    this.#context.setAdapter(adapterOf(batch));
    this.#useThreads(batch.leavesCore ? Math.max(1, this.#threads.numThreads - 1) : this.#threads.numThreads);
    const startedAtMs = performance.now();
    const cpuBefore = process.cpuUsage();
    const logits = this.#compute(batch);
    const { user, system } = process.cpuUsage(cpuBefore); // µs, of all threads
    const nowMs = performance.now();
    // While another thread of this process computes, the numbers do not describe other processes.
    if (!batch.leavesCore) {
      const idleCores = this.#threads.hasGivenUp ? this.#idleCores.observe(nowMs) : null;
      this.#threads.observe({ nowMs, wallMs: nowMs - startedAtMs, cpuMs: (user + system) / 1000, idleCores });
      if (!this.#threads.hasGivenUp) this.#idleCores.forget();
    }
    this.#cells.append(rows, sequences);
    return new FlatLogits(logits, this.vocabSize);
  }

  /** @returns `[batch.numLogits, V]`, valid until the next call */
  #compute(batch: StepBatch): Float32Array {
    const calls = decodeCalls(batch, this.#tileRows);
    if (calls.length === 1) return this.#decode(batch, calls[0]!);
    const size = batch.numLogits * this.vocabSize;
    if (this.#logits.length < size) this.#logits = new Float32Array(size);
    const places = logitPlaces(batch);
    for (const call of calls) {
      const logits = this.#decode(batch, call);
      let row = 0;
      for (const i of call) {
        if (batch.wantsLogits[i] === 0) continue;
        const place = places[i]! * this.vocabSize;
        this.#logits.set(logits.subarray(row * this.vocabSize, ++row * this.vocabSize), place);
      }
    }
    return this.#logits;
  }

  #decode(batch: StepBatch, rows: readonly number[]): Float32Array {
    const context = this.#context;
    context.batch.clear();
    for (const i of rows)
      context.batch.add(batch.tokens[i]!, batch.positions[i]!, batch.sequences[i]!, batch.wantsLogits[i] === 1);
    const hasCompanion = rows.length === 1 && batch.isReproducible;
    if (hasCompanion) context.batch.add(batch.tokens[rows[0]!]!, 0, this.#companion, false);
    context.decode();
    if (hasCompanion) context.removeSequence(this.#companion, 0);
    return context.logits();
  }

  #useThreads(count: number): void {
    if (count === this.#numThreads) return;
    this.#context.setNumThreads(count);
    this.#numThreads = count;
  }

  share(from: number, to: number, length: number): void {
    this.#cells.share(from, to, length);
  }

  forget(sequence: number, fromPosition: number): void {
    this.#cells.forget(sequence, fromPosition);
  }

  loadAdapter(path: string): RunnerAdapter {
    return LlamaAdapter.load(this.#model, path);
  }

  close(): void {
    this.#context.close();
  }
}

function adapterOf({ adapters }: StepBatch): LlamaAdapter | null {
  if (adapters.length > 1) throw new RangeError(`a batch has one adapter here, got ${adapters.length}`);
  const adapter = adapters[0] ?? null;
  if (adapter === null || adapter instanceof LlamaAdapter) return adapter;
  throw new TypeError('the adapter was loaded by another runner');
}

/** Row of logits of each batch row; -1 for none. */
function logitPlaces({ length, wantsLogits }: StepBatch): Int32Array {
  const places = new Int32Array(length);
  for (let i = 0, next = 0; i < length; i++) places[i] = wantsLogits[i] === 1 ? next++ : -1;
  return places;
}
