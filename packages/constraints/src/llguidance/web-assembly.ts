/** The part of the WebAssembly API used here, which Node.js's types lack. */
interface WebAssemblyApi {
  readonly Module: new (bytes: Uint8Array) => WasmModule;
  readonly Instance: new (
    module: WasmModule,
    imports: Readonly<Record<string, Readonly<Record<string, (...numbers: never[]) => number>>>>,
  ) => { readonly exports: unknown };
}

/** Can be posted to other threads. */
export interface WasmModule {
  readonly [Symbol.toStringTag]: 'WebAssembly.Module';
}

export interface WasmMemory {
  /** Detached and replaced when the memory grows. */
  readonly buffer: ArrayBuffer;
  grow(pages: number): number;
}

export const webAssembly = (globalThis as unknown as { WebAssembly: WebAssemblyApi }).WebAssembly;
