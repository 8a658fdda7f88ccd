/** The part of the JavaScript API that is used here; its types come with the browser's library, which this package has no other use for. */
declare const WebAssembly: {
  Memory: new (size: { initial: number; maximum?: number; shared?: boolean }) => { readonly buffer: ArrayBuffer };
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports: object) => { readonly exports: object };
};

const PAGE_BYTES = 65_536;
/** As much as 32 bits address, rounded down to whole pages that a length can tell. */
export const MAX_MEMORY_BYTES = 65_535 * PAGE_BYTES;

/** Memory of one thread, zeroed. */
export interface WasmMemory {
  readonly buffer: ArrayBuffer;
}
/** Memory that threads can send each other, zeroed; the machine gives each page when it is touched. */
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

/** @returns the functions of a module over this memory; `Exports` says which there are */
export const instantiate = <Exports>(module: WasmModule, memory: WasmMemory | SharedWasmMemory): Exports =>
  new WebAssembly.Instance(module, { host: { memory } }).exports as Exports;
