import type { KoffiFunc, LibraryHandle, TypeObject } from 'koffi';
import { NativeError } from './errors.ts';
import { koffi } from './koffi.ts';
import { libraryDirectory, libraryPath, LLAMA_PACKAGE_VERSION } from './platform.ts';
import { structTypes } from './structs.ts';
import type { Batch, ContextParams, ModelParams, Pointer, QuantizeParams, TypeTraits } from './structs.ts';

/** Another version has other struct layouts and would crash instead of failing. */
const LLAMA_VERSION = '0.5.0-dev';

/** Memory that a C function reads or fills during the call. */
type Bytes = Uint8Array | Int32Array | Float32Array | BigUint64Array;

function bindLlama(library: LibraryHandle) {
  const { BATCH, CONTEXT_PARAMS, MODEL_PARAMS, QUANTIZE_PARAMS } = structTypes();
  const bind = <F extends (...args: never[]) => unknown>(
    result: string | TypeObject,
    name: string,
    parameters: (string | TypeObject)[],
  ) => library.func(name, result, parameters) as KoffiFunc<F>;
  return {
    version: bind<() => string>('const char*', 'llama_version', []),
    backendInit: bind<() => void>('void', 'llama_backend_init', []),
    logSet: bind<(callback: Pointer, data: null) => void>('void', 'llama_log_set', ['void*', 'void*']),

    modelDefaultParams: bind<() => ModelParams>(MODEL_PARAMS, 'llama_model_default_params', []),
    modelLoad: bind<(path: string, params: ModelParams) => Pointer | null>('void*', 'llama_model_load_from_file', [
      'const char*',
      MODEL_PARAMS,
    ]),
    modelFree: bind<(model: Pointer) => void>('void', 'llama_model_free', ['void*']),
    modelVocab: bind<(model: Pointer) => Pointer>('void*', 'llama_model_get_vocab', ['void*']),
    modelContextTrain: bind<(model: Pointer) => number>('int32', 'llama_model_n_ctx_train', ['void*']),
    modelEmbedding: bind<(model: Pointer) => number>('int32', 'llama_model_n_embd', ['void*']),
    modelLayers: bind<(model: Pointer) => number>('int32', 'llama_model_n_layer', ['void*']),
    modelSize: bind<(model: Pointer) => number>('uint64', 'llama_model_size', ['void*']),
    modelIsRecurrent: bind<(model: Pointer) => boolean>('bool', 'llama_model_is_recurrent', ['void*']),
    modelIsHybrid: bind<(model: Pointer) => boolean>('bool', 'llama_model_is_hybrid', ['void*']),
    modelMeta: bind<(model: Pointer, key: string, out: Bytes | null, size: number) => number>(
      'int32',
      'llama_model_meta_val_str',
      ['void*', 'const char*', 'void*', 'size_t'],
    ),
    modelChatTemplate: bind<(model: Pointer, name: null) => string | null>('const char*', 'llama_model_chat_template', [
      'void*',
      'const char*',
    ]),

    vocabSize: bind<(vocab: Pointer) => number>('int32', 'llama_vocab_n_tokens', ['void*']),
    vocabAttributes: bind<(vocab: Pointer, token: number) => number>('int32', 'llama_vocab_get_attr', [
      'void*',
      'int32',
    ]),
    vocabIsEog: bind<(vocab: Pointer, token: number) => boolean>('bool', 'llama_vocab_is_eog', ['void*', 'int32']),
    vocabBos: bind<(vocab: Pointer) => number>('int32', 'llama_vocab_bos', ['void*']),
    vocabEos: bind<(vocab: Pointer) => number>('int32', 'llama_vocab_eos', ['void*']),
    vocabEot: bind<(vocab: Pointer) => number>('int32', 'llama_vocab_eot', ['void*']),
    vocabAddsBos: bind<(vocab: Pointer) => boolean>('bool', 'llama_vocab_get_add_bos', ['void*']),
    tokenize: bind<
      (
        vocab: Pointer,
        text: Bytes,
        textBytes: number,
        out: Int32Array,
        capacity: number,
        addSpecial: boolean,
        parseSpecial: boolean,
      ) => number
    >('int32', 'llama_tokenize', ['void*', 'const void*', 'int32', 'void*', 'int32', 'bool', 'bool']),
    tokenToPiece: bind<
      (vocab: Pointer, token: number, out: Bytes, capacity: number, lstrip: number, special: boolean) => number
    >('int32', 'llama_token_to_piece', ['void*', 'int32', 'void*', 'int32', 'int32', 'bool']),

    contextDefaultParams: bind<() => ContextParams>(CONTEXT_PARAMS, 'llama_context_default_params', []),
    contextInit: bind<(model: Pointer, params: ContextParams) => Pointer | null>('void*', 'llama_init_from_model', [
      'void*',
      CONTEXT_PARAMS,
    ]),
    contextFree: bind<(context: Pointer) => void>('void', 'llama_free', ['void*']),
    contextSetThreads: bind<(context: Pointer, decode: number, batch: number) => void>('void', 'llama_set_n_threads', [
      'void*',
      'int32',
      'int32',
    ]),
    contextTokens: bind<(context: Pointer) => number>('uint32', 'llama_n_ctx', ['void*']),
    contextMemory: bind<(context: Pointer) => Pointer | null>('void*', 'llama_get_memory', ['void*']),
    maxSequences: bind<() => number>('size_t', 'llama_max_parallel_sequences', []),
    decode: bind<(context: Pointer, batch: Batch) => number>('int32', 'llama_decode', ['void*', BATCH]),
    logits: bind<(context: Pointer) => Pointer | null>('void*', 'llama_get_logits', ['void*']),
    memoryCopy: bind<(memory: Pointer, from: number, to: number, start: number, end: number) => void>(
      'void',
      'llama_memory_seq_cp',
      ['void*', 'int32', 'int32', 'int32', 'int32'],
    ),
    memoryRemove: bind<(memory: Pointer, sequence: number, start: number, end: number) => boolean>(
      'bool',
      'llama_memory_seq_rm',
      ['void*', 'int32', 'int32', 'int32'],
    ),

    sequenceStateSize: bind<(context: Pointer, sequence: number) => number>('size_t', 'llama_state_seq_get_size', [
      'void*',
      'int32',
    ]),
    sequenceStateSave: bind<(context: Pointer, out: Bytes, size: number, sequence: number) => number>(
      'size_t',
      'llama_state_seq_get_data',
      ['void*', 'void*', 'size_t', 'int32'],
    ),
    sequenceStateRestore: bind<(context: Pointer, state: Bytes, size: number, sequence: number) => number>(
      'size_t',
      'llama_state_seq_set_data',
      ['void*', 'const void*', 'size_t', 'int32'],
    ),

    adapterLoad: bind<(model: Pointer, path: string) => Pointer | null>('void*', 'llama_adapter_lora_init', [
      'void*',
      'const char*',
    ]),
    adapterFree: bind<(adapter: Pointer) => void>('void', 'llama_adapter_lora_free', ['void*']),
    setAdapters: bind<
      (context: Pointer, adapters: BigUint64Array | null, count: number, scales: Float32Array | null) => number
    >('int32', 'llama_set_adapters_lora', ['void*', 'void*', 'size_t', 'void*']),

    quantizeDefaultParams: bind<() => QuantizeParams>(QUANTIZE_PARAMS, 'llama_model_quantize_default_params', []),
    quantize: bind<(from: string, to: string, params: QuantizeParams) => number>('uint32', 'llama_model_quantize', [
      'const char*',
      'const char*',
      koffi().pointer(QUANTIZE_PARAMS),
    ]),
  };
}

function bindGgml(base: LibraryHandle) {
  const { TYPE_TRAITS } = structTypes();
  const getTypeTraits = base.func('ggml_get_type_traits', 'void*', ['int32']) as KoffiFunc<(type: number) => Pointer>;
  return {
    /** @param type ggml_type, which must exist */
    typeTraits: (type: number) => koffi().decode(getTypeTraits(type), TYPE_TRAITS) as TypeTraits,
    /**
     * A harmless log callback for any thread. (A JavaScript callback from a compute thread would deadlock while the
     * main thread waits in `llama_decode`.)
     */
    logSink: base.symbol('ggml_type_name') as Pointer,
  };
}

export type Library = ReturnType<typeof bindLlama> & { readonly ggml: ReturnType<typeof bindGgml> };

let loaded: Library | undefined;

/**
 * Loaded on first use with the CPU back end that fits the processor best.
 *
 * @throws {NativeError} `native.platform_unsupported`, `native.library_mismatch`
 */
export function library(): Library {
  return (loaded ??= load());
}

export function llamaVersion(): string {
  return library().version();
}

function load(): Library {
  const directory = libraryDirectory();
  let base: LibraryHandle, ggml: LibraryHandle, llama: LibraryHandle;
  try {
    // Each library finds the ones before it loaded, independent of the platform's search path.
    base = koffi().load(libraryPath(directory, 'ggml-base'));
    ggml = koffi().load(libraryPath(directory, 'ggml'));
    llama = koffi().load(libraryPath(directory, 'llama'));
  } catch (cause) {
    if (cause instanceof NativeError) throw cause;
    throw new NativeError('native.library_mismatch', `cannot load llama.cpp from ${directory}: ${String(cause)}`, {
      cause,
    });
  }
  const found = (llama.func('llama_version', 'const char*', []) as KoffiFunc<() => string>)();
  if (found !== LLAMA_VERSION) {
    throw new NativeError(
      'native.library_mismatch',
      `llama.cpp in ${directory} is version ${found}, but ${LLAMA_VERSION} is needed: install version ${LLAMA_PACKAGE_VERSION} of the @node-llama-cpp package`,
    );
  }
  const bound = { ...bindLlama(llama), ggml: bindGgml(base) };
  bound.logSet(bound.ggml.logSink, null);
  const loadBackends = ggml.func('ggml_backend_load_all_from_path', 'void', ['const char*']) as KoffiFunc<
    (directory: string) => void
  >;
  loadBackends(directory);
  bound.backendInit();
  return bound;
}
