import { readFileSync } from 'node:fs';
import { webAssembly, type WasmMemory, type WasmModule } from './web-assembly.ts';

/** Functions of `wasm/src/lib.rs`. Addresses and sizes are unsigned 32-bit numbers. */
interface JinjaExports {
  readonly memory: WasmMemory;
  jinja_alloc(length: number): number;
  jinja_compile(address: number, length: number): number;
  jinja_free(handle: number): void;
  jinja_render(handle: number, address: number, length: number, fuel: number): number;
  jinja_result_len(): number;
  jinja_result_ptr(): number;
  jinja_set_clock(
    year: number,
    month: number,
    day: number,
    hour: number,
    minute: number,
    second: number,
    microsecond: number,
  ): void;
}

export interface JinjaResult {
  readonly kind: (typeof KINDS)[number];
  readonly text: string;
}

const KINDS = ['text', 'refused', 'failed', 'exhausted'] as const;
/** WebAssembly memory never shrinks, so a larger instance is replaced. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

let module: WasmModule | null = null;
let current: JinjaInstance | null = null;

/**
 * Compiled templates of this thread. A template that exhausts the stack or the memory ends in a trap, which
 * makes the instance unusable; the next one starts empty.
 */
export class JinjaInstance {
  readonly #exports: JinjaExports;

  private constructor() {
    module ??= new webAssembly.Module(readFileSync(new URL('../../wasm/jinja.wasm', import.meta.url)));
    this.#exports = new webAssembly.Instance(module, {}).exports as JinjaExports;
  }

  static current(): JinjaInstance {
    return (current ??= new JinjaInstance());
  }

  get isCurrent(): boolean {
    return this === current;
  }

  /** @returns a handle @throws {Error} with the reason if the source is not a template */
  compile(source: string): number {
    return this.#guarded(() => {
      const handle = this.#exports.jinja_compile(...this.#write(source));
      if (handle < 0) return new Error(this.#result());
      return handle;
    });
  }

  /** @param variables JSON text @param fuel maximum steps of the rendering */
  render(handle: number, variables: string, now: Date, fuel: number): JinjaResult {
    return this.#guarded(() => {
      this.#exports.jinja_set_clock(
        now.getFullYear(),
        now.getMonth() + 1,
        now.getDate(),
        now.getHours(),
        now.getMinutes(),
        now.getSeconds(),
        now.getMilliseconds() * 1000,
      );
      const kind = KINDS[this.#exports.jinja_render(handle, ...this.#write(variables), fuel)];
      if (kind === undefined) throw new Error('the module answered something else');
      const text = this.#result();
      if (this.#exports.memory.buffer.byteLength > MAX_KEPT_BYTES) current = null;
      return { kind, text };
    });
  }

  free(handle: number): void {
    this.#guarded(() => this.#exports.jinja_free(handle));
  }

  #guarded<Result>(task: () => Result | Error): Result {
    let result: Result | Error;
    try {
      result = task();
    } catch (cause) {
      current = null;
      throw new Error('it needs more memory, or nests deeper, than a chat template may', { cause });
    }
    if (result instanceof Error) throw result;
    return result;
  }

  #write(text: string): [address: number, length: number] {
    const bytes = encoder.encode(text);
    const address = this.#exports.jinja_alloc(bytes.length);
    new Uint8Array(this.#exports.memory.buffer, address, bytes.length).set(bytes);
    return [address, bytes.length];
  }

  #result(): string {
    const address = this.#exports.jinja_result_ptr();
    return decoder.decode(new Uint8Array(this.#exports.memory.buffer, address, this.#exports.jinja_result_len()));
  }
}
