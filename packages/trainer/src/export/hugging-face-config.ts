import { type Architecture, embeddingScaleOf, FAMILIES, layerKind } from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';
import type { MergedType } from './merged-weights.ts';

interface TransformersFamily {
  /** transformers' class and its `model_type`. */
  readonly className: string;
  readonly modelType: string;
  readonly hasHeadNorm: boolean;
  /** transformers adds it to the weights of norms. */
  readonly normOffset: number;
  readonly fields: (architecture: Architecture) => object;
}

/** Families by the name of their GGUF architecture. */
export const TRANSFORMERS_FAMILIES: Readonly<Record<string, TransformersFamily>> = {
  llama: {
    className: 'LlamaForCausalLM',
    modelType: 'llama',
    hasHeadNorm: false,
    normOffset: 0,
    fields: ({ hasAttentionBias }) => ({ hidden_act: 'silu', attention_bias: hasAttentionBias, mlp_bias: false }),
  },
  qwen2: {
    className: 'Qwen2ForCausalLM',
    modelType: 'qwen2',
    hasHeadNorm: false,
    normOffset: 0,
    fields: () => ({ hidden_act: 'silu', use_sliding_window: false }),
  },
  qwen3: {
    className: 'Qwen3ForCausalLM',
    modelType: 'qwen3',
    hasHeadNorm: true,
    normOffset: 0,
    fields: ({ hasAttentionBias }) => ({
      hidden_act: 'silu',
      attention_bias: hasAttentionBias,
      use_sliding_window: false,
    }),
  },
  gemma3: {
    className: 'Gemma3ForCausalLM',
    modelType: 'gemma3_text',
    hasHeadNorm: true,
    normOffset: 1,
    fields: gemma3Fields,
  },
};

function gemma3Fields(architecture: Architecture): object {
  const { hasAttentionBias, headSize, numLayers, window } = architecture;
  return {
    hidden_activation: 'gelu_pytorch_tanh',
    attention_bias: hasAttentionBias,
    query_pre_attn_scalar: headSize,
    attn_logit_softcapping: null,
    final_logit_softcapping: null,
    layer_types: Array.from({ length: numLayers }, (_, layer) =>
      layerKind(architecture, layer) === 'windowed' ? 'sliding_attention' : 'full_attention',
    ),
    ...(window === null
      ? {}
      : { sliding_window: window.tokens, rope_local_base_freq: Number(window.ropeBase.toPrecision(7)) }),
  };
}

/** Number that transformers adds to the weights of an architecture's norms. */
export const normOffset = (name: string): number => TRANSFORMERS_FAMILIES[name]?.normOffset ?? 0;

const DTYPES: Readonly<Record<MergedType, string>> = { f32: 'float32', f16: 'float16' };

export interface ModelFacts {
  /** Tokens. */
  readonly contextLength: number;
  readonly bosTokenId: number | null;
  readonly eosTokenId: number;
  /** True if the output matrix is the embedding. */
  readonly hasTiedEmbeddings: boolean;
}

/** @throws {TrainerError} `trainer.architecture_unsupported` if transformers has no class for it */
export function huggingFaceConfig(architecture: Architecture, facts: ModelFacts, type: MergedType): object {
  const { name, ropeScale, rmsEpsilon } = architecture;
  const family = TRANSFORMERS_FAMILIES[name];
  if (family === undefined || architecture.hasHeadNorm !== family.hasHeadNorm) {
    throw new TrainerError(
      'trainer.architecture_unsupported',
      `transformers does not support this ${name} model; use the format merged-gguf`,
    );
  }
  return {
    architectures: [family.className],
    model_type: family.modelType,
    vocab_size: architecture.vocabSize,
    hidden_size: architecture.hiddenSize,
    intermediate_size: architecture.feedForwardSize,
    num_hidden_layers: architecture.numLayers,
    num_attention_heads: architecture.numHeads,
    num_key_value_heads: architecture.numKvHeads,
    head_dim: architecture.headSize,
    max_position_embeddings: facts.contextLength,
    // The file has float32; seven digits restore the original value.
    rms_norm_eps: Number(rmsEpsilon.toPrecision(7)),
    rope_theta: Number(architecture.ropeBase.toPrecision(7)),
    rope_scaling: ropeScale === 1 ? null : { type: 'linear', rope_type: 'linear', factor: ropeScale },
    ...family.fields(architecture),
    attention_dropout: 0,
    initializer_range: 0.02,
    tie_word_embeddings: facts.hasTiedEmbeddings,
    bos_token_id: facts.bosTokenId,
    eos_token_id: facts.eosTokenId,
    use_cache: true,
    torch_dtype: DTYPES[type],
  };
}

export function architectureOfConfig(config: Readonly<Record<string, unknown>>): Architecture {
  const number = (key: string) => Number(config[key]);
  const [name, { hasHeadNorm }] = Object.entries(TRANSFORMERS_FAMILIES).find(
    ([, { modelType }]) => modelType === config['model_type'],
  )!;
  const scaling = config['rope_scaling'] as { factor: number } | null;
  const hiddenSize = number('hidden_size');
  const family = FAMILIES[name]!;
  return {
    name,
    vocabSize: number('vocab_size'),
    hiddenSize,
    feedForwardSize: number('intermediate_size'),
    numLayers: number('num_hidden_layers'),
    numHeads: number('num_attention_heads'),
    numKvHeads: number('num_key_value_heads'),
    headSize: number('head_dim'),
    rmsEpsilon: number('rms_norm_eps'),
    ropeBase: number('rope_theta'),
    ropeScale: scaling?.factor ?? 1,
    hasAttentionBias: name === 'qwen2' || config['attention_bias'] === true,
    hasHeadNorm,
    hasInterleavedHeads: false,
    activation: family.activation,
    hasPostNorms: family.hasPostNorms,
    embeddingScale: embeddingScaleOf(family, hiddenSize),
    window: windowOfConfig(config),
  };
}

function windowOfConfig(config: Readonly<Record<string, unknown>>): Architecture['window'] {
  const layers = config['layer_types'] as string[] | undefined;
  if (layers?.includes('sliding_attention') !== true) return null;
  // Without a full layer, a period longer than the model.
  const period = layers.indexOf('full_attention') + 1 || layers.length + 1;
  return { tokens: Number(config['sliding_window']), period, ropeBase: Number(config['rope_local_base_freq']) };
}
