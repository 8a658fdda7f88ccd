/** The part of the WebAssembly API used here, which Node.js's types lack. */
interface WebAssemblyApi {
  readonly Module: new (bytes: Uint8Array) => WasmModule;
  readonly Instance: new (
    module: WasmModule,
    imports: Readonly<Record<string, never>>,
  ) => { readonly exports: unknown };
}

export interface WasmModule {
  readonly [Symbol.toStringTag]: 'WebAssembly.Module';
}

export interface WasmMemory {
  /** Detached and replaced when the memory grows. */
  readonly buffer: ArrayBuffer;
}

export const webAssembly = (globalThis as unknown as { WebAssembly: WebAssemblyApi }).WebAssembly;
