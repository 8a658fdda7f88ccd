import { NativeError } from '../binding/errors.ts';
import { library } from '../binding/library.ts';
import { cPath } from './llama-model.ts';
import { captureErrors } from '../binding/log.ts';
import { replaceFile } from '../binding/replace-file.ts';

export type QuantizationType = 'f32' | 'f16' | 'bf16' | 'q8_0' | 'q4_0';

// llama_ftype
const FILE_TYPES: Readonly<Record<QuantizationType, number>> = { f32: 0, q4_0: 2, f16: 1, q8_0: 7, bf16: 32 };

/**
 * `to` is complete or absent: a temporary file is synced and renamed. Blocks the thread for seconds to minutes.
 *
 * @param from GGUF model of any type (a quantised one is expanded first)
 * @param type `f16` and `bf16` for exact sampling, `q8_0` and `q4_0` for speed
 * @throws {NativeError} `native.quantize_failed` with llama.cpp's reason
 */
export function quantizeModel(from: string, to: string, type: QuantizationType, numThreads: number): void {
  const llama = library();
  const params = llama.quantizeDefaultParams();
  params.ftype = FILE_TYPES[type];
  params.nthread = numThreads;
  params.allow_requantize = true;
  replaceFile(to, (temporary) => {
    const { result, errors } = captureErrors(() => llama.quantize(cPath(from), cPath(temporary), params));
    if (result !== 0) {
      throw new NativeError(
        'native.quantize_failed',
        `cannot write ${from} as ${type}: ${errors || 'no reason given'}`,
      );
    }
  });
}
