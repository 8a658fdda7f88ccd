import { readFile } from 'node:fs/promises';
import { webAssembly, type WasmModule } from './web-assembly.ts';

let compiling: Promise<WasmModule> | undefined;

/** The committed build of llguidance (`wasm/build.sh`), compiled once per process. */
export function llguidanceModule(): Promise<WasmModule> {
  compiling ??= readFile(new URL('../../wasm/llguidance.wasm', import.meta.url)).then((bytes) =>
    webAssembly.compile(bytes),
  );
  return compiling;
}
