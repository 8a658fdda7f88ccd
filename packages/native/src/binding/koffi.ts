import { createRequire } from 'node:module';
import type Koffi from 'koffi';

let loaded: typeof Koffi | undefined;

/** Loaded with the first call, so that an import alone maps no native code. */
export function koffi(): typeof Koffi {
  loaded ??= createRequire(import.meta.url)('koffi') as typeof Koffi;
  return loaded;
}
