/** The part of the JavaScript API used here, whose types come only with the browser library. */
declare const WebAssembly: {
  Memory: new (size: { initial: number; maximum?: number; shared?: boolean }) => { readonly buffer: ArrayBuffer };
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: object) => { readonly exports: object };
};

const PAGE_BYTES = 65_536;
/** The 32-bit address range, less one page, so that a 32-bit length can express it. */
export const MAX_MEMORY_BYTES = 65_535 * PAGE_BYTES;

export interface WasmMemory {
  readonly buffer: ArrayBuffer;
}
/** Memory that threads can send each other, zeroed; the machine commits each page when it is touched. */
export interface SharedWasmMemory {
  readonly buffer: SharedArrayBuffer;
}
export type WasmModule = object;

export const ownMemory = (sizeBytes: number): WasmMemory =>
  new WebAssembly.Memory({ initial: Math.ceil(sizeBytes / PAGE_BYTES) });

export function sharedMemory(sizeBytes: number): SharedWasmMemory {
  const memory = new WebAssembly.Memory({ initial: Math.ceil(sizeBytes / PAGE_BYTES), maximum: 65_536, shared: true });
  return memory as unknown as SharedWasmMemory;
}

export const compileModule = (bytes: Uint8Array): WasmModule => new WebAssembly.Module(bytes);

/** `Exports` declares the functions of the module. */
export const instantiate = <Exports>(module: WasmModule, memory: WasmMemory | SharedWasmMemory): Exports =>
  new WebAssembly.Instance(module, { host: { memory } }).exports as Exports;
