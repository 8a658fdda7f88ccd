import { createRequire } from 'node:module';
import type Koffi from 'koffi';

let loaded: typeof Koffi | undefined;

/** Returns koffi, loaded with the first call: an import without opening a model maps no native code. */
export function koffi(): typeof Koffi {
  loaded ??= createRequire(import.meta.url)('koffi') as typeof Koffi;
  return loaded;
}
