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
  /** Rows per call, each of which may want logits. */
  batchTokens: number;
  /** Rows computed at once inside a decode call. Default: the smaller of 512 and `batchTokens`. */
  microBatchTokens?: number;
  numThreads: number;
  /** Precision of keys and values. Default f16. */
  cachePrecision?: 'f16' | 'f32';
  /**
   * Computes attention block by block: faster, without memory for all scores of a batch. With fewer rows than
   * ggml's tiles, values are summed in half precision one by one, so the loss grows with the context; keys and
   * values are always cast to half precision. Default: true with a cache of f16.
   */
  flashAttention?: boolean;
}

// return values of llama_decode
const DECODE_OK = 0;
const DECODE_NO_SLOT = 1;
const DECODE_INVALID_BATCH = -1;

const GGML_TYPES = { f32: 0, f16: 1 };
const FLASH_ATTENTION_OFF = 0;
const DEFAULT_MICRO_BATCH_TOKENS = 512;

/**
 * A KV cache over a model, shared by all sequences.
 *
 * Threads live for one decode. A kept ggml thread pool gave no gain: 8 sequences after 400 shared tokens, F16
 * file, 2 threads on 2 cores, median of 60 steps: none 50.7 ms, poll 0 50.9 ms, poll 50 51.2 ms; with one core
 * kept busy 96, 94 and 96 ms. Threads spin at barriers, so keep `numThreads` cores free while decoding.
 */
export class LlamaContext implements Disposable {
  readonly model: LlamaModel;
  readonly contextTokens: number;
  readonly maxSequences: number;
  readonly batchTokens: number;
  readonly flashAttention: boolean;
  readonly batch: DecodeBatch;
  readonly #handle: NativeHandle;
  readonly #llama: Library;
  readonly #memory: Pointer;
  #adapter: { adapter: LlamaAdapter; unlisten: () => void } | null = null;
  #logitsView: { address: Pointer; values: Float32Array<ArrayBuffer> } | null = null;
  #numLogits = 0;

  /** @throws {NativeError} `native.decode_failed` if llama.cpp cannot create it (out of memory, impossible sizes) */
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
    // Every row may want logits. llama.cpp reserves at least one output row per sequence, and aborts above this
    // limit (default n_batch).
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
   * Appends the rows of `batch`, which stays unchanged, to the KV cache. Blocks the thread.
   *
   * @throws {NativeError} `native.kv_full` if no cells are left: nothing has changed, so remove sequences and call
   * again; `native.decode_failed` if a position does not continue its sequence or computing failed
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
    // A rejected batch was not computed, so calling again is harmless and gives the reason: the log is off while
    // computing.
    const reason =
      answer === DECODE_INVALID_BATCH ? captureErrors(() => this.#llama.decode(context, struct)).errors : '';
    throw new NativeError(
      'native.decode_failed',
      `llama_decode answered ${answer}${reason === '' ? '' : `: ${reason}`}`,
    );
  }

  /**
   * Logits of the rows of the last `decode` that wanted them: `[batch.numLogits, V]`, row-major, in batch order. A
   * view of C memory, valid until the next `decode` or `close`.
   */
  logits(): Float32Array {
    this.#handle.assertOpen();
    if (this.#numLogits === 0) return new Float32Array(0);
    assert(this.#logitsView !== null);
    const length = this.#numLogits * this.model.vocabSize;
    const { values } = this.#logitsView;
    return values.length === length ? values : values.subarray(0, length);
  }

  /** Makes `to` share positions [start, end) of `from`, replacing its own there. */
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

  /** Positions [fromPosition, end), by default all from there on; other sequences keep shared cells. */
  removeSequence(sequence: number, fromPosition: number, end = -1): void {
    this.#checkSequence(sequence);
    assert(fromPosition >= 0, `position ${fromPosition} is negative`);
    this.#handle.assertOpen();
    const done = this.#llama.memoryRemove(this.#memory, sequence, fromPosition, end);
    assert(done, `this model's cache cannot drop part of a sequence (positions >= ${fromPosition})`);
  }

  /**
   * Saves keys, values and positions. {@link restoreSequence} restores them to the bit, in any context of the same
   * model and cache precision. SmolLM2-135M takes 23 KB per token in half precision.
   */
  saveSequence(sequence: number): Uint8Array {
    this.#checkSequence(sequence);
    const context = this.#handle.address;
    // llama.cpp's size is exact.
    const state = new Uint8Array(this.#llama.sequenceStateSize(context, sequence));
    const written = this.#llama.sequenceStateSave(context, state, state.length, sequence);
    assert(written === state.length, `${written} of ${state.length} bytes of sequence ${sequence} were saved`);
    return state;
  }

  /**
   * Replaces a sequence with a state of {@link saveSequence}.
   *
   * @throws {NativeError} `native.kv_full` if it has more tokens than free cells; the sequence is empty then
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

  setNumThreads(numThreads: number): void {
    assert(
      Number.isInteger(numThreads) && numThreads >= 1,
      `numThreads must be a whole number from 1, got ${numThreads}`,
    );
    this.#llama.contextSetThreads(this.#handle.address, numThreads, numThreads);
  }

  /** Null is the base model. */
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

  /** llama.cpp keeps its output buffer until more rows are wanted than ever before, and so is the view. */
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

  /** Detaches arrays that callers still hold, so that they read undefined instead of freed memory. */
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
