import type { KoffiFunc } from 'koffi';
import { koffi } from './koffi.ts';

/**
 * Gives memory that native code has freed back to the machine, where the C library keeps it: after weights were laid out anew glibc held 220 MB of 540.
 * Elsewhere it does nothing.
 */
export function returnFreeMemory(): void {
  if (process.platform !== 'linux') return;
  let trim: KoffiFunc<(keep: number) => number>;
  try {
    // null: whatever C library the process has.
    trim = koffi().load(null).func('malloc_trim', 'int', ['size_t']) as typeof trim;
  } catch {
    return; // musl has no such function, and keeps nothing
  }
  trim(0);
}

/** V8 frees array buffers in a thread of its own, behind the collection that found them. */
const SWEPT_MS = 1_000;
const collected = new FinalizationRegistry<null>(() => void setTimeout(returnFreeMemory, SWEPT_MS).unref());

/** The same once `owner` is collected, and with it the array buffers that it alone holds: the C library keeps what V8 frees of them, too. */
export function returnMemoryOf(owner: object): void {
  collected.register(owner, null);
}
