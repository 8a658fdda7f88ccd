import { expect, test } from 'vitest';
import { library } from './library.ts';

// A field at a wrong offset shows as a wrong default: these are the documented values of llama.h, from first
// field to last.

test('model parameters have the library’s layout', () => {
  expect(library().modelDefaultParams()).toMatchObject({
    devices: null,
    n_gpu_layers: -1,
    split_mode: 1,
    load_mode: -1,
    lazy_mode: 1,
    main_gpu: 0,
    progress_callback: null,
    kv_overrides: null,
    vocab_only: false,
    check_tensors: false,
    use_extra_bufts: true,
    load_mtp: false,
  });
});

test('context parameters have the library’s layout', () => {
  expect(library().contextDefaultParams()).toMatchObject({
    n_ctx: 512,
    n_batch: 2048,
    n_ubatch: 512,
    n_seq_max: 1,
    n_outputs_max: 0,
    n_threads: 4,
    n_threads_batch: 4,
    rope_scaling_type: -1,
    pooling_type: -1,
    attention_type: -1,
    flash_attn_type: -1,
    yarn_ext_factor: -1,
    yarn_beta_fast: -1,
    yarn_orig_ctx: 0,
    defrag_thold: -1,
    type_k: 1,
    type_v: 1,
    embeddings: false,
    offload_kqv: true,
    no_perf: true,
    op_offload: true,
    swa_full: true,
    kv_unified: false,
    samplers: null,
    ctx_other: null,
  });
});

test('quantisation parameters have the library’s layout', () => {
  expect(library().quantizeDefaultParams()).toMatchObject({
    nthread: 0,
    ftype: 7, // q8_0
    output_tensor_type: 43, // the number of types: keep as it is
    token_embedding_type: 43,
    allow_requantize: false,
    quantize_output_tensor: true,
    only_copy: false,
    imatrix: null,
    max_buf_size: 8 * 2 ** 30,
  });
});
