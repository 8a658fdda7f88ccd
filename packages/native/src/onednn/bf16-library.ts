import { NativeError } from '../binding/errors.ts';
import { oneDnnLibrary } from './onednn-library.ts';

/** oneDNN, on a processor that multiplies bf16. */
export interface Bf16Library {
  readonly path: string;
  readonly version: string;
}

/**
 * @param numThreads per product, including the calling one
 * @param path of a file, or a name that the system finds
 * @throws {NativeError} `native.library_mismatch`: not loadable or not a known version;
 * `native.platform_unsupported`: the processor cannot multiply bf16
 */
export function openBf16Library(path: string, numThreads: number): Bf16Library {
  const { hasBf16, versionText, setNumThreads } = oneDnnLibrary(path);
  setNumThreads(numThreads);
  if (hasBf16) return { path, version: versionText };
  throw new NativeError(
    'native.platform_unsupported',
    'this processor has no bf16 instructions (AVX512-BF16 or AMX), without which they are slower than those of single precision',
  );
}
