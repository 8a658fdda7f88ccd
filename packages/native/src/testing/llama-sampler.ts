import type { KoffiFunc } from 'koffi';
import { koffi } from '../binding/koffi.ts';
import { library } from '../binding/library.ts';
import { libraryDirectory, libraryPath } from '../binding/platform.ts';
import type { Pointer } from '../binding/structs.ts';

/** `llama_token_data`: id (int32), logit and probability (float). */
const ENTRY_BYTES = 12;
const LOGIT_AT = 4;

interface Candidates {
  data: Buffer;
  size: number;
  selected: number;
  sorted: boolean;
}

/**
 * Tokens of a row that llama.cpp's own `top-n-sigma` keeps, as a reference for tests.
 *
 * @param logits `[V]`, -Infinity if masked
 * @returns ids, ascending
 */
export function keptByLlamaTopNSigma(logits: Float32Array, numSigmas: number): number[] {
  const { init, apply, free } = bindings();
  const data = Buffer.alloc(ENTRY_BYTES * logits.length);
  for (const [id, logit] of logits.entries()) {
    data.writeInt32LE(id, ENTRY_BYTES * id);
    data.writeFloatLE(logit, ENTRY_BYTES * id + LOGIT_AT);
  }
  const sampler = init(numSigmas);
  apply(sampler, { data, size: logits.length, selected: -1, sorted: false });
  free(sampler);
  const kept: number[] = [];
  for (let at = 0; at < data.length; at += ENTRY_BYTES)
    if (data.readFloatLE(at + LOGIT_AT) > -Infinity) kept.push(data.readInt32LE(at));
  return kept.sort((a, b) => a - b);
}

let bound: ReturnType<typeof bind> | undefined;

function bindings(): ReturnType<typeof bind> {
  return (bound ??= bind());
}

function bind() {
  library(); // with its dependencies, and without its messages
  const ffi = koffi();
  const llama = ffi.load(libraryPath(libraryDirectory(), 'llama'));
  const CANDIDATES = ffi.struct({ data: 'void*', size: 'size_t', selected: 'int64', sorted: 'bool' });
  return {
    init: llama.func('llama_sampler_init_top_n_sigma', 'void*', ['float']) as KoffiFunc<(n: number) => Pointer>,
    apply: llama.func('llama_sampler_apply', 'void', ['void*', ffi.pointer(CANDIDATES)]) as KoffiFunc<
      (sampler: Pointer, candidates: Candidates) => void
    >,
    free: llama.func('llama_sampler_free', 'void', ['void*']) as KoffiFunc<(sampler: Pointer) => void>,
  };
}
