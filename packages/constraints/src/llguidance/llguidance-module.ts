import { readFileSync } from 'node:fs';
import { webAssembly, type WasmModule } from './web-assembly.ts';

let compiled: WasmModule | undefined;

/** The committed build of llguidance (`wasm/build.sh`), compiled once per thread. */
export function llguidanceModule(): WasmModule {
  compiled ??= new webAssembly.Module(readFileSync(new URL('../../wasm/llguidance.wasm', import.meta.url)));
  return compiled;
}
