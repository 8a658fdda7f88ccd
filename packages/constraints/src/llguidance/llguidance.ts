import assert from 'node:assert';
import type { PackedTokens } from './token-table.ts';
import { webAssembly, type WasmMemory, type WasmModule } from './web-assembly.ts';

export interface GrammarSource {
  readonly syntax: 'json_schema' | 'regex' | 'lark';
  readonly text: string;
}

/** Address of a matcher inside one instance. */
export type MatcherHandle = number;

/** The instance stays usable. */
export class LlguidanceRefusal extends Error {
  override readonly name = 'LlguidanceRefusal';
}

/** The instance died: out of stack, out of memory, or a panic. It must not be used again. */
export class LlguidanceTrap extends Error {
  override readonly name = 'LlguidanceTrap';
  readonly reason: 'stack' | 'memory' | 'panic';
  constructor(reason: LlguidanceTrap['reason'], options: ErrorOptions) {
    super(`llguidance trapped: ${reason}`, options);
    this.reason = reason;
  }
}

/**
 * Limits per completion, lower than llguidance's defaults for a dedicated server: the engine waits for a step,
 * and the worst one of a hostile grammar stays near 0.1 s.
 */
const PARSER_LIMITS = {
  rowItems: 2000,
  compileFuel: 1_000_000n,
  stepFuel: 200_000n,
  stepItems: 50_000,
  /** 1–2 kB each */
  lexerStates: 50_000,
  grammarSize: 500_000,
} as const;

const SYNTAX = { json_schema: 0, regex: 1, lark: 2 } as const;
const WASM_PAGE_BYTES = 65_536;

/** Functions of `wasm/src/lib.rs`. Addresses and sizes are unsigned 32-bit numbers. */
interface Exports {
  memory: WasmMemory;
  heap_live_bytes(): number;
  heap_set_limit(bytes: number): void;
  heap_is_exhausted(): number;
  buffer_new(bytes: number): number;
  buffer_free(start: number, bytes: number): void;
  message_start(): number;
  message_length(): number;
  version(): void;
  vocabulary_set(numTokens: number, lengths: number, bytes: number, numEnds: number, ends: number): number;
  limits_set(
    rowItems: number,
    compileFuel: bigint,
    stepFuel: bigint,
    stepItems: number,
    lexerStates: number,
    grammarSize: number,
  ): void;
  matcher_new(syntax: number, text: number, length: number): number;
  matcher_clone(matcher: number): number;
  matcher_free(matcher: number): void;
  matcher_mask(matcher: number, mask: number, numWords: number): number;
  matcher_accept(matcher: number, token: number): number;
  matcher_can_end(matcher: number): number;
  matcher_is_stopped(matcher: number): number;
}

/** Memory with the vocabulary, a start for any instance of the same module. */
export interface LlguidanceSnapshot {
  readonly memory: SharedArrayBuffer;
  readonly maskAddress: number;
  readonly maskWords: number;
}

/**
 * One instance of the wasm module: one thread, one vocabulary.
 *
 * Every method throws `LlguidanceTrap` if the instance dies in it.
 */
export class Llguidance {
  readonly #exports: Exports;
  readonly #maskAddress: number;
  readonly #maskWords: number;
  #isDead = false;

  /** Creates the first instance: 0.2 s for 49,152 tokens, against 0.03 s from a snapshot. */
  static fromVocabulary(module: WasmModule, table: PackedTokens): Llguidance {
    const exports = instantiate(module);
    const maskWords = Math.ceil(table.lengths.length / 32);
    const maskAddress = exports.buffer_new(maskWords * 4);
    const instance = new Llguidance(exports, maskAddress, maskWords);
    const parts = [table.lengths, table.bytes, table.endTokenIds];
    const buffers = parts.map((part) =>
      instance.#copyIn(new Uint8Array(part.buffer, part.byteOffset, part.byteLength)),
    );
    const [lengths, bytes, ends] = buffers as [number, number, number];
    const { length: numEnds } = table.endTokenIds;
    const result = instance.#run(() => exports.vocabulary_set(table.lengths.length, lengths, bytes, numEnds, ends));
    if (result !== 0) throw new LlguidanceRefusal(instance.#message());
    for (const [index, part] of parts.entries()) exports.buffer_free(buffers[index]!, part.byteLength);
    const { rowItems, compileFuel, stepFuel, stepItems, lexerStates, grammarSize } = PARSER_LIMITS;
    exports.limits_set(rowItems, compileFuel, stepFuel, stepItems, lexerStates, grammarSize);
    return instance;
  }

  static fromSnapshot(module: WasmModule, snapshot: LlguidanceSnapshot): Llguidance {
    const exports = instantiate(module);
    const missing = snapshot.memory.byteLength - exports.memory.buffer.byteLength;
    if (missing > 0) exports.memory.grow(Math.ceil(missing / WASM_PAGE_BYTES));
    new Uint8Array(exports.memory.buffer).set(new Uint8Array(snapshot.memory));
    return new Llguidance(exports, snapshot.maskAddress, snapshot.maskWords);
  }

  private constructor(exports: Exports, maskAddress: number, maskWords: number) {
    this.#exports = exports;
    this.#maskAddress = maskAddress;
    this.#maskWords = maskWords;
  }

  /** Must be taken before any matcher exists, or it would contain them. */
  snapshot(): LlguidanceSnapshot {
    const live = new Uint8Array(this.#exports.memory.buffer);
    const memory = new SharedArrayBuffer(live.length);
    new Uint8Array(memory).set(live);
    return { memory, maskAddress: this.#maskAddress, maskWords: this.#maskWords };
  }

  get version(): string {
    this.#exports.version();
    return this.#message();
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  get liveBytes(): number {
    return this.#exports.heap_live_bytes() >>> 0;
  }

  /** Limits the heap; a larger allocation traps. */
  setHeapLimit(bytes: number): void {
    this.#exports.heap_set_limit(bytes);
  }

  /** @throws {LlguidanceRefusal} if the source cannot be compiled */
  compile({ syntax, text }: GrammarSource): MatcherHandle {
    return this.#run(() => {
      const utf8 = new TextEncoder().encode(text);
      const address = this.#copyIn(utf8);
      const handle = this.#exports.matcher_new(SYNTAX[syntax], address, utf8.length);
      this.#exports.buffer_free(address, utf8.length);
      if (handle === 0) throw new LlguidanceRefusal(this.#message());
      return handle;
    });
  }

  cloneMatcher(handle: MatcherHandle): MatcherHandle {
    return this.#run(() => this.#exports.matcher_clone(handle));
  }

  freeMatcher(handle: MatcherHandle): void {
    if (!this.#isDead) this.#run(() => this.#exports.matcher_free(handle));
  }

  /**
   * @throws {LlguidanceRefusal} if no token may follow, or computing it took too much; the matcher is then
   * unusable
   */
  fillMask(handle: MatcherHandle, mask: Uint32Array): void {
    this.#run(() => {
      this.#check(this.#exports.matcher_mask(handle, this.#maskAddress, this.#maskWords));
      // Created each time: growing the memory detaches earlier views.
      mask.set(new Uint32Array(this.#exports.memory.buffer, this.#maskAddress, this.#maskWords));
    });
  }

  accept(handle: MatcherHandle, tokenId: number): boolean {
    return this.#run(() => this.#check(this.#exports.matcher_accept(handle, tokenId)) === 1);
  }

  canEnd(handle: MatcherHandle): boolean {
    return this.#run(() => this.#check(this.#exports.matcher_can_end(handle)) === 1);
  }

  isStopped(handle: MatcherHandle): boolean {
    return this.#run(() => this.#exports.matcher_is_stopped(handle) === 1);
  }

  #check(result: number): number {
    if (result < 0) throw new LlguidanceRefusal(this.#message());
    return result;
  }

  #run<T>(call: () => T): T {
    assert(!this.#isDead, 'a dead instance of llguidance was used');
    try {
      return call();
    } catch (error) {
      if (error instanceof LlguidanceRefusal) throw error;
      this.#isDead = true;
      const isOutOfStack = error instanceof RangeError;
      const isOutOfMemory = !isOutOfStack && this.#exports.heap_is_exhausted() !== 0;
      throw new LlguidanceTrap(isOutOfStack ? 'stack' : isOutOfMemory ? 'memory' : 'panic', { cause: error });
    }
  }

  #copyIn(bytes: Uint8Array): number {
    const address = this.#exports.buffer_new(bytes.length);
    new Uint8Array(this.#exports.memory.buffer, address, bytes.length).set(bytes);
    return address;
  }

  #message(): string {
    const { buffer } = this.#exports.memory;
    const bytes = new Uint8Array(buffer, this.#exports.message_start(), this.#exports.message_length());
    return new TextDecoder().decode(bytes);
  }
}

/**
 * The few WASI calls of Rust's standard library. Its output (panics) is dropped, because it may quote a
 * constraint.
 */
function instantiate(module: WasmModule): Exports {
  const view = () => new DataView(exports.memory.buffer);
  const exports = new webAssembly.Instance(module, {
    wasi_snapshot_preview1: {
      random_get: (address: number, length: number) => {
        crypto.getRandomValues(new Uint8Array(exports.memory.buffer, address, length));
        return 0;
      },
      environ_get: () => 0,
      environ_sizes_get: (count: number, size: number) => {
        view().setUint32(count, 0, true);
        view().setUint32(size, 0, true);
        return 0;
      },
      clock_time_get: (_clock: number, _precision: bigint, address: number) => {
        view().setBigUint64(address, process.hrtime.bigint(), true);
        return 0;
      },
      fd_write: (_file: number, buffers: number, count: number, written: number) => {
        let length = 0;
        for (let index = 0; index < count; index++) length += view().getUint32(buffers + 8 * index + 4, true);
        view().setUint32(written, length, true);
        return 0;
      },
      proc_exit: (code: number) => {
        throw new Error(`exit ${code}`);
      },
      sched_yield: () => 0,
    },
  }).exports as unknown as Exports;
  return exports;
}
