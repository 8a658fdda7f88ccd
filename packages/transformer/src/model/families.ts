/**
 * Activation of a feed-forward. `silu` and `gelu` (its tanh form) are of the gate; `clamped` is that of gpt-oss:
 * (u + 1) · g · sigmoid(1.702 g), with g at most 7 and u between -7 and 7.
 */
export type Activation = 'silu' | 'gelu' | 'clamped';

/** Traits of an architecture that its model files do not contain. Biases and norms of q and k show in the tensors. */
export interface Family {
  /** True if GGUF stores q and k rows for interleaved rope. */
  readonly hasInterleavedHeads: boolean;
  readonly activation: Activation;
  /** RMS norms of the inputs of attention and feed-forward, and of their outputs before they are added. */
  readonly norms: Readonly<Record<'before' | 'after', boolean>>;
  /** GGUF's name of the norm of the input of the feed-forward. */
  readonly feedForwardNorm: 'ffn_norm' | 'post_attention_norm';
  /** Columns of q and k that one RMS norm spans, if the file has such norms. */
  readonly queryKeyNorm: 'head' | 'projection';
  /** True if embeddings are multiplied by √H before the first block. */
  readonly scalesEmbedding: boolean;
  /**
   * Sliding windows that a file may set, and their defaults; null if none is supported. Without a period all layers
   * have the window. Rope of windowed layers: a base of their own without scaling, or that of the other layers with
   * (`shared`) or without (`unscaled`) its scaling.
   */
  readonly windowedLayers: { readonly period: number | null; readonly rope: number | 'shared' | 'unscaled' } | null;
  /** True if q, k and v are one linear layer, and gate and up another. */
  readonly hasFusedLinears: boolean;
  /** True if rope may rotate only the first dimensions of a head. */
  readonly ropeIsPartial: boolean;
  /** True if a file may have rope factors for short and for long contexts. */
  readonly ropeHasTwoFactors: boolean;
  /** The last of each so many layers has no rope; null if all have it. */
  readonly unrotatedPeriod: number | null;
  /** True if `rope.scaling.finetuned`: false means that no layer has rope. */
  readonly ropeIsOptional: boolean;
  /** Number of blocks of the one size that llama.cpp recognises by it and whose attention has another scale. */
  readonly otherScaleLayers: number | null;
  /** True if rope scaling by yarn rounds the pairs between which it changes. */
  readonly yarnIsRounded: boolean;
  /** True if each head has a sink, and attention output, router and experts have biases (gpt-oss). */
  readonly hasSinks: boolean;
  /** True if layers have experts, and only some of them a feed-forward of their own. */
  readonly hasExperts: boolean;
  /** True if some layers have a short convolution instead of attention, and the linear layers of LFM2. */
  readonly hasConvolutions: boolean;
  /** True if some layers have a gated delta net instead of attention, and the others an output gate. */
  readonly hasDeltaNets: boolean;
  /** Tensor of the norm before the head. */
  readonly outputNorm: string;
  /** Settings that a file may have in addition to those of all architectures. */
  readonly settings: readonly string[];
}

const LLAMA: Family = {
  hasInterleavedHeads: true,
  activation: 'silu',
  norms: { before: true, after: false },
  feedForwardNorm: 'ffn_norm',
  queryKeyNorm: 'head',
  scalesEmbedding: false,
  windowedLayers: null,
  hasFusedLinears: false,
  ropeIsPartial: false,
  ropeHasTwoFactors: false,
  unrotatedPeriod: null,
  ropeIsOptional: false,
  otherScaleLayers: null,
  yarnIsRounded: true,
  hasSinks: false,
  hasExperts: false,
  hasConvolutions: false,
  hasDeltaNets: false,
  outputNorm: 'output_norm.weight',
  settings: [],
};

const GRANITE: Family = {
  ...LLAMA,
  ropeIsOptional: true,
  settings: [
    'attention.scale',
    'embedding_scale',
    'residual_scale',
    'logit_scale',
    // Granite 4 states sizes of Mamba layers without having some, and the width of its only feed-forward twice.
    'expert_shared_feed_forward_length',
    'ssm.conv_kernel',
    'ssm.group_count',
    'ssm.inner_size',
    'ssm.state_size',
    'ssm.time_step_rank',
  ],
};

/** Factor of embeddings as input of the first block; 1 = none. */
export const embeddingScaleOf = ({ scalesEmbedding }: Family, hiddenSize: number): number =>
  scalesEmbedding ? Math.fround(Math.sqrt(hiddenSize)) : 1;

/** Trainable architectures by their name in GGUF files. */
export const FAMILIES: Readonly<Record<string, Family>> = {
  // Mistral 7B has windows in all layers.
  llama: { ...LLAMA, windowedLayers: { period: null, rope: 'shared' } },
  qwen2: { ...LLAMA, hasInterleavedHeads: false },
  qwen3: { ...LLAMA, hasInterleavedHeads: false },
  qwen3moe: {
    ...LLAMA,
    hasInterleavedHeads: false,
    hasExperts: true,
    settings: ['expert_count', 'expert_used_count', 'expert_feed_forward_length', 'expert_weights_norm'],
  },
  'gpt-oss': {
    ...LLAMA,
    hasInterleavedHeads: false,
    activation: 'clamped',
    feedForwardNorm: 'post_attention_norm',
    windowedLayers: { period: 2, rope: 'shared' },
    yarnIsRounded: false,
    hasSinks: true,
    hasExperts: true,
    settings: ['expert_count', 'expert_used_count', 'expert_feed_forward_length'],
  },
  gemma3: {
    ...LLAMA,
    hasInterleavedHeads: false,
    activation: 'gelu',
    norms: { before: true, after: true },
    scalesEmbedding: true,
    windowedLayers: { period: 6, rope: 10_000 },
    otherScaleLayers: 62,
  },
  granite: GRANITE,
  granitemoe: {
    ...GRANITE,
    hasExperts: true,
    settings: [...GRANITE.settings, 'expert_count', 'expert_used_count'],
  },
  smollm3: { ...LLAMA, unrotatedPeriod: 4 },
  // The name of a norm of embeddings, which is kept for older files.
  lfm2: {
    ...LLAMA,
    hasInterleavedHeads: false,
    hasConvolutions: true,
    outputNorm: 'token_embd_norm.weight',
    settings: ['shortconv.l_cache'],
  },
  // Sections of rope are for images: text has one position in all of them.
  qwen35: {
    ...LLAMA,
    hasInterleavedHeads: false,
    feedForwardNorm: 'post_attention_norm',
    ropeIsPartial: true,
    hasDeltaNets: true,
    settings: [
      'attention.recurrent_layers',
      'full_attention_interval',
      'nextn_predict_layers',
      'rope.dimension_sections',
      'ssm.conv_kernel',
      'ssm.group_count',
      'ssm.inner_size',
      'ssm.state_size',
      'ssm.time_step_rank',
    ],
  },
  // OLMo 3 has windows, OLMo 2 has none.
  olmo2: {
    ...LLAMA,
    hasInterleavedHeads: false,
    norms: { before: false, after: true },
    queryKeyNorm: 'projection',
    windowedLayers: { period: 4, rope: 'unscaled' },
  },
  // Phi-4 mini rotates three quarters of a head, with factors; Phi-3 mini 4k has windows.
  phi3: {
    ...LLAMA,
    hasInterleavedHeads: false,
    windowedLayers: { period: null, rope: 'shared' },
    hasFusedLinears: true,
    ropeIsPartial: true,
    ropeHasTwoFactors: true,
    settings: ['rope.scaling.attn_factor'],
  },
};
