import assert from 'node:assert';
import { koffi } from '../binding/koffi.ts';
import { DecodeBatch } from './decode-batch.ts';
import { NativeError } from '../binding/errors.ts';
import { library } from '../binding/library.ts';
import type { Library } from '../binding/library.ts';
import type { LlamaAdapter } from './llama-adapter.ts';
import type { LlamaModel } from './llama-model.ts';
import { captureErrors } from '../binding/log.ts';
import { NativeHandle } from '../binding/native-handle.ts';
import type { Pointer } from '../binding/structs.ts';

export interface LlamaContextOptions {
  /** KV cells, shared by all sequences; rounded up to a multiple of 256. */
  contextTokens: number;
  /** Sequence ids are 0..maxSequences - 1; at most 256. */
  maxSequences: number;
  /** Rows of one decode call, each of which may ask for logits. */
  batchTokens: number;
  /** Rows computed at once inside a decode call. Default: the lesser of 512 and `batchTokens`. */
  microBatchTokens?: number;
  numThreads: number;
  /** Precision of keys and values. Default f16. */
  cachePrecision?: 'f16' | 'f32';
  /**
   * Whether attention is computed block by block, which is faster and has no room for all scores of a batch. Fewer rows than ggml's tiles have then sum their
   * values in half precision, one after the other: what is lost grows with the context. And llama.cpp casts keys and values to half precision whatever the
   * cache has. Default: with a cache of f16.
   */
  flashAttention?: boolean;
}

// llama_decode's answers
const DECODE_OK = 0;
const DECODE_NO_SLOT = 1;
const DECODE_INVALID_BATCH = -1;

const GGML_TYPES = { f32: 0, f16: 1 };
const FLASH_ATTENTION_OFF = 0;
const DEFAULT_MICRO_BATCH_TOKENS = 512;

/**
 * A KV cache over a model and the means to run it. One cache, shared by all sequences.
 *
 * Compute threads live as long as one decode. A kept ggml thread pool was measured and is not used: 8 sequences after 400
 * shared tokens, F16 file, 2 threads on 2 cores, median of 60 steps: none 50.7 ms, poll 0 50.9 ms, poll 50 51.2 ms; with
 * one core kept busy by another process 96, 94 and 96 ms. The threads spin at the barriers inside a graph, which `poll`
 * does not reach, so what helps is to have `numThreads` cores free while decoding.
 */
export class LlamaContext implements Disposable {
  readonly model: LlamaModel;
  readonly contextTokens: number;
  readonly maxSequences: number;
  readonly batchTokens: number;
  readonly flashAttention: boolean;
  /** The rows of the next `decode`. */
  readonly batch: DecodeBatch;
  readonly #handle: NativeHandle;
  readonly #llama: Library;
  readonly #memory: Pointer;
  #adapter: { adapter: LlamaAdapter; unlisten: () => void } | null = null;
  #logitsView: { address: Pointer; values: Float32Array<ArrayBuffer> } | null = null;
  #numLogits = 0;

  /** @throws {NativeError} `native.decode_failed` when llama.cpp cannot make it (out of memory, impossible sizes) */
  constructor(model: LlamaModel, o: LlamaContextOptions) {
    this.#llama = library();
    assert(model.hasWeights, `${model.path} was loaded with vocabOnly`);
    const limit = this.#llama.maxSequences();
    assert(
      o.maxSequences >= 1 && o.maxSequences <= limit,
      `maxSequences must be in [1, ${limit}], got ${o.maxSequences}`,
    );
    assert(o.contextTokens >= 1 && o.batchTokens >= 1 && o.numThreads >= 1, 'sizes and threads must be positive');
    const params = this.#llama.contextDefaultParams();
    params.n_ctx = o.contextTokens;
    params.n_batch = o.batchTokens;
    params.n_ubatch = Math.min(o.microBatchTokens ?? DEFAULT_MICRO_BATCH_TOKENS, o.batchTokens);
    params.n_seq_max = o.maxSequences;
    // Every row may want logits. llama.cpp sizes its output for each sequence's one row at least, and aborts when that exceeds
    // this limit, whose default is n_batch.
    params.n_outputs_max = Math.max(o.batchTokens, o.maxSequences);
    params.n_threads = o.numThreads;
    params.n_threads_batch = o.numThreads;
    const cachePrecision = o.cachePrecision ?? 'f16';
    params.type_k = GGML_TYPES[cachePrecision];
    params.type_v = GGML_TYPES[cachePrecision];
    this.flashAttention = o.flashAttention ?? cachePrecision === 'f16';
    if (!this.flashAttention) params.flash_attn_type = FLASH_ATTENTION_OFF;
    params.kv_unified = true;
    params.no_perf = true;
    const { result, errors } = captureErrors(() => this.#llama.contextInit(model.handle.address, params));
    if (result === null) {
      throw new NativeError(
        'native.decode_failed',
        `cannot create a context of ${o.contextTokens} tokens for ${model.path}: ${errors || 'no reason given'}`,
      );
    }
    this.model = model;
    this.#handle = new NativeHandle('LlamaContext', result, this.#llama.contextFree);
    const unlisten = model.handle.onClose(() => this.close());
    this.#handle.onClose(unlisten);
    this.contextTokens = this.#llama.contextTokens(result);
    this.maxSequences = o.maxSequences;
    this.batchTokens = o.batchTokens;
    this.batch = new DecodeBatch(o.batchTokens, { vocabSize: model.vocabSize, maxSequences: o.maxSequences });
    const memory = this.#llama.contextMemory(result);
    if (memory === null) {
      this.#handle.close();
      throw new NativeError(
        'native.decode_failed',
        `${model.path} is no model that continues text: it has no KV cache`,
      );
    }
    this.#memory = memory;
  }

  /**
   * Runs the rows of `batch` and appends them to the KV cache. Leaves `batch` as it is. Blocks the thread.
   *
   * @throws {NativeError} `native.kv_full` when no cells are left: nothing has changed, so remove sequences and call again;
   *   `native.decode_failed` when a position does not continue its sequence or computing failed
   */
  decode(): void {
    const context = this.#handle.address;
    assert(this.batch.length > 0, 'the batch is empty');
    this.#numLogits = 0;
    const struct = this.batch.toStruct();
    const answer = this.#llama.decode(context, struct);
    if (answer === DECODE_OK) {
      this.#numLogits = this.batch.numLogits;
      if (this.#numLogits > 0) this.#viewLogits(context);
      return;
    }
    if (answer === DECODE_NO_SLOT) {
      throw new NativeError(
        'native.kv_full',
        `no room in the KV cache of ${this.contextTokens} tokens for a batch of ${this.batch.length}`,
      );
    }
    // A rejected batch was not computed, so asking again is harmless and tells why: the log is off while computing.
    const reason =
      answer === DECODE_INVALID_BATCH ? captureErrors(() => this.#llama.decode(context, struct)).errors : '';
    throw new NativeError(
      'native.decode_failed',
      `llama_decode answered ${answer}${reason === '' ? '' : `: ${reason}`}`,
    );
  }

  /**
   * Logits of the rows of the last `decode` that wanted them: `[batch.numLogits, V]`, row-major, in batch order.
   *
   * A view of C memory, valid until the next `decode` or `close`: copy what must live longer.
   */
  logits(): Float32Array {
    this.#handle.assertOpen();
    if (this.#numLogits === 0) return new Float32Array(0);
    assert(this.#logitsView !== null);
    const length = this.#numLogits * this.model.vocabSize;
    const { values } = this.#logitsView;
    return values.length === length ? values : values.subarray(0, length);
  }

  /** Lets `to` share the cells of positions [start, end) of `from`, instead of any it had there: no copy, no compute. */
  copySequence(from: number, to: number, end: number, start = 0): void {
    this.#checkSequence(from);
    this.#checkSequence(to);
    assert(start >= 0 && end >= start, `positions [${start}, ${end})`);
    this.#handle.assertOpen();
    if (from === to || start === end) return;
    // llama.cpp would keep both: two cells at one position, both attended to.
    this.#llama.memoryRemove(this.#memory, to, start, end);
    this.#llama.memoryCopy(this.#memory, from, to, start, end);
  }

  /** Forgets positions [fromPosition, end) of a sequence, by default all from there on; cells that other sequences share stay theirs. */
  removeSequence(sequence: number, fromPosition: number, end = -1): void {
    this.#checkSequence(sequence);
    assert(fromPosition >= 0, `position ${fromPosition} is negative`);
    this.#handle.assertOpen();
    const done = this.#llama.memoryRemove(this.#memory, sequence, fromPosition, end);
    assert(done, `this model's cache cannot drop part of a sequence (positions >= ${fromPosition})`);
  }

  /**
   * Copies the keys and values of a sequence out, with their positions: to the bit what {@link restoreSequence} brings back, into this context or another
   * of the same model and cache precision. The sequence stays as it is. Memory only: SmolLM2-135M has 23 KB a token in half precision.
   */
  saveSequence(sequence: number): Uint8Array {
    this.#checkSequence(sequence);
    const context = this.#handle.address;
    // The size as llama.cpp computes it is exact.
    const state = new Uint8Array(this.#llama.sequenceStateSize(context, sequence));
    const written = this.#llama.sequenceStateSave(context, state, state.length, sequence);
    assert(written === state.length, `${written} of ${state.length} bytes of sequence ${sequence} were saved`);
    return state;
  }

  /**
   * Fills a sequence, instead of anything that it had, with what {@link saveSequence} gave.
   * @throws {NativeError} `native.kv_full` when there are fewer free cells than it has tokens; the sequence is empty then
   */
  restoreSequence(sequence: number, state: Uint8Array): void {
    this.#checkSequence(sequence);
    const context = this.#handle.address;
    if (this.#llama.sequenceStateRestore(context, state, state.length, sequence) === state.length) return;
    this.removeSequence(sequence, 0);
    throw new NativeError(
      'native.kv_full',
      `no room in the KV cache of ${this.contextTokens} tokens for a saved sequence`,
    );
  }

  /** Threads of every decode from now on. */
  setNumThreads(numThreads: number): void {
    assert(
      Number.isInteger(numThreads) && numThreads >= 1,
      `numThreads must be a whole number from 1, got ${numThreads}`,
    );
    this.#llama.contextSetThreads(this.#handle.address, numThreads, numThreads);
  }

  /** Chooses the adapter of every row decoded from now on; null is the base model. */
  setAdapter(adapter: LlamaAdapter | null): void {
    const context = this.#handle.address;
    if (adapter === (this.#adapter?.adapter ?? null)) return;
    assert(adapter === null || adapter.model === this.model, 'the adapter belongs to another model');
    const answer =
      adapter === null
        ? this.#llama.setAdapters(context, null, 0, null)
        : this.#llama.setAdapters(context, BigUint64Array.of(adapter.handle.address), 1, Float32Array.of(1));
    assert(answer === 0, `llama_set_adapters_lora answered ${answer}`);
    this.#adapter?.unlisten();
    this.#adapter = adapter && { adapter, unlisten: adapter.handle.onClose(() => this.setAdapter(null)) };
  }

  close(): void {
    this.#adapter?.unlisten();
    this.#adapter = null;
    this.#dropView();
    this.#handle.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** llama.cpp keeps its output buffer until more rows are wanted than ever before; one view lasts as long. */
  #viewLogits(context: Pointer): void {
    const address = this.#llama.logits(context);
    assert(address !== null, 'the decode made no logits');
    const length = this.#numLogits * this.model.vocabSize;
    if (this.#logitsView?.address === address && this.#logitsView.values.length >= length) return;
    this.#dropView();
    this.#logitsView = {
      address,
      values: new Float32Array(koffi().view(address, length * Float32Array.BYTES_PER_ELEMENT)),
    };
  }

  /** Empties arrays that callers still hold: reading them gives undefined, not freed memory. */
  #dropView(): void {
    this.#logitsView?.values.buffer.transfer();
    this.#logitsView = null;
  }

  #checkSequence(sequence: number): void {
    assert(
      sequence >= 0 && sequence < this.maxSequences,
      `sequence ${sequence} is outside the context's ${this.maxSequences}`,
    );
  }
}
