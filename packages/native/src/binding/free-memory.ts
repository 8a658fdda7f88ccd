import type { KoffiFunc } from 'koffi';
import { koffi } from './koffi.ts';

/**
 * Returns freed memory to the machine: after weights were laid out again glibc held 220 MB of 540. No-op on
 * other platforms.
 */
export function returnFreeMemory(): void {
  if (process.platform !== 'linux') return;
  let trim: KoffiFunc<(keep: number) => number>;
  try {
    // null: the C library of the process.
    trim = koffi().load(null).func('malloc_trim', 'int', ['size_t']) as typeof trim;
  } catch {
    return; // musl has no such function, and keeps nothing
  }
  trim(0);
}

/** V8 frees array buffers in a separate thread, after the collection that found them. */
const SWEPT_MS = 1_000;
const collected = new FinalizationRegistry<null>(() => void setTimeout(returnFreeMemory, SWEPT_MS).unref());

/** Does the same once `owner` is collected: the C library also keeps its array buffers. */
export function returnMemoryOf(owner: object): void {
  collected.register(owner, null);
}
