import { koffi } from './koffi.ts';

// Layouts of llama.h and ggml.h at the pinned release. Anonymous, so that loading this module twice in a process
// is harmless.

type StructTypes = ReturnType<typeof defineTypes>;

let types: StructTypes | undefined;

export function structTypes(): StructTypes {
  types ??= defineTypes();
  return types;
}

function defineTypes() {
  const ffi = koffi();
  const MODEL_PARAMS = ffi.struct({
    devices: 'void*',
    tensor_buft_overrides: 'void*',
    n_gpu_layers: 'int32',
    split_mode: 'int32',
    load_mode: 'int32',
    lazy_mode: 'int32',
    main_gpu: 'int32',
    tensor_split: 'void*',
    progress_callback: 'void*',
    progress_callback_user_data: 'void*',
    kv_overrides: 'void*',
    vocab_only: 'bool',
    check_tensors: 'bool',
    use_extra_bufts: 'bool',
    no_host: 'bool',
    no_alloc: 'bool',
    load_mtp: 'bool',
  });

  const CONTEXT_PARAMS = ffi.struct({
    n_ctx: 'uint32',
    n_batch: 'uint32',
    n_ubatch: 'uint32',
    n_seq_max: 'uint32',
    n_rs_seq: 'uint32',
    n_outputs_max: 'uint32',
    n_outputs_max_per_seq: 'uint32',
    n_threads: 'int32',
    n_threads_batch: 'int32',
    ctx_type: 'int32',
    rope_scaling_type: 'int32',
    pooling_type: 'int32',
    attention_type: 'int32',
    flash_attn_type: 'int32',
    rope_freq_base: 'float',
    rope_freq_scale: 'float',
    yarn_ext_factor: 'float',
    yarn_attn_factor: 'float',
    yarn_beta_fast: 'float',
    yarn_beta_slow: 'float',
    yarn_orig_ctx: 'uint32',
    defrag_thold: 'float',
    cb_eval: 'void*',
    cb_eval_user_data: 'void*',
    type_k: 'int32',
    type_v: 'int32',
    abort_callback: 'void*',
    abort_callback_data: 'void*',
    embeddings: 'bool',
    offload_kqv: 'bool',
    no_perf: 'bool',
    op_offload: 'bool',
    swa_full: 'bool',
    kv_unified: 'bool',
    samplers: 'void*',
    n_samplers: 'size_t',
    ctx_other: 'void*',
  });

  const BATCH = ffi.struct({
    n_tokens: 'int32',
    token: 'void*',
    embd: 'void*',
    pos: 'void*',
    n_seq_id: 'void*',
    seq_id: 'void*',
    logits: 'void*',
  });

  const QUANTIZE_PARAMS = ffi.struct({
    nthread: 'int32',
    ftype: 'int32',
    output_tensor_type: 'int32',
    token_embedding_type: 'int32',
    allow_requantize: 'bool',
    quantize_output_tensor: 'bool',
    only_copy: 'bool',
    pure: 'bool',
    keep_split: 'bool',
    dry_run: 'bool',
    imatrix: 'void*',
    kv_overrides: 'void*',
    tensor_types: 'void*',
    prune_layers: 'void*',
    max_buf_size: 'size_t',
  });

  const TYPE_TRAITS = ffi.struct({
    type_name: 'const char*',
    blck_size: 'int64',
    blck_size_interleave: 'int64',
    type_size: 'size_t',
    is_quantized: 'bool',
    to_float: 'void*',
    from_float_ref: 'void*',
  });

  const LOG_CALLBACK = ffi.proto('void', ['int', 'const char*', 'void*']);
  const PROGRESS_CALLBACK = ffi.proto('bool', ['float', 'void*']);
  const TO_FLOAT = ffi.proto('void', ['const void*', 'void*', 'int64']);
  return {
    MODEL_PARAMS,
    CONTEXT_PARAMS,
    BATCH,
    QUANTIZE_PARAMS,
    TYPE_TRAITS,
    LOG_CALLBACK,
    PROGRESS_CALLBACK,
    TO_FLOAT,
  };
}

/** An address; koffi uses bigint, and null for NULL. */
export type Pointer = bigint;

export interface ModelParams {
  n_gpu_layers: number;
  load_mode: number;
  progress_callback: Pointer | null;
  vocab_only: boolean;
  check_tensors: boolean;
  no_alloc: boolean;
}

export interface ContextParams {
  n_ctx: number;
  n_batch: number;
  n_ubatch: number;
  n_seq_max: number;
  n_outputs_max: number;
  flash_attn_type: number;
  n_threads: number;
  n_threads_batch: number;
  type_k: number;
  type_v: number;
  no_perf: boolean;
  kv_unified: boolean;
}

export interface Batch {
  n_tokens: number;
  token: Pointer;
  embd: null;
  pos: Pointer;
  n_seq_id: Pointer;
  seq_id: Pointer;
  logits: Pointer;
}

export interface QuantizeParams {
  nthread: number;
  ftype: number;
  allow_requantize: boolean;
}

export interface TypeTraits {
  type_name: string;
  blck_size: number;
  type_size: number;
  is_quantized: boolean;
  to_float: Pointer | null;
}
