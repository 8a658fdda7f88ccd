import type { Architecture } from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';
import type { MergedType } from './merged-weights.ts';

/** transformers' classes by GGUF architecture. */
const CLASSES: Readonly<Record<string, string>> = {
  llama: 'LlamaForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  qwen3: 'Qwen3ForCausalLM',
};

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
  if (architecture.hasPostNorms) {
    throw new TrainerError(
      'trainer.architecture_unsupported',
      `merged-safetensors does not support ${name}; use the format merged-gguf`,
    );
  }
  const className = CLASSES[name];
  if (className === undefined || architecture.hasHeadNorm !== (name === 'qwen3')) {
    throw new TrainerError(
      'trainer.architecture_unsupported',
      `transformers does not support this ${name} model; use the format merged-gguf`,
    );
  }
  return {
    architectures: [className],
    model_type: name,
    vocab_size: architecture.vocabSize,
    hidden_size: architecture.hiddenSize,
    intermediate_size: architecture.feedForwardSize,
    num_hidden_layers: architecture.numLayers,
    num_attention_heads: architecture.numHeads,
    num_key_value_heads: architecture.numKvHeads,
    head_dim: architecture.headSize,
    hidden_act: 'silu',
    max_position_embeddings: facts.contextLength,
    // The file has float32; seven digits restore the original value.
    rms_norm_eps: Number(rmsEpsilon.toPrecision(7)),
    rope_theta: Number(architecture.ropeBase.toPrecision(7)),
    rope_scaling: ropeScale === 1 ? null : { type: 'linear', rope_type: 'linear', factor: ropeScale },
    ...(name === 'qwen2' ? {} : { attention_bias: architecture.hasAttentionBias }),
    ...(name === 'llama' ? { mlp_bias: false } : { use_sliding_window: false }),
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
  const name = String(config['model_type']);
  const scaling = config['rope_scaling'] as { factor: number } | null;
  return {
    name,
    vocabSize: number('vocab_size'),
    hiddenSize: number('hidden_size'),
    feedForwardSize: number('intermediate_size'),
    numLayers: number('num_hidden_layers'),
    numHeads: number('num_attention_heads'),
    numKvHeads: number('num_key_value_heads'),
    headSize: number('head_dim'),
    rmsEpsilon: number('rms_norm_eps'),
    ropeBase: number('rope_theta'),
    ropeScale: scaling?.factor ?? 1,
    hasAttentionBias: name === 'qwen2' || config['attention_bias'] === true,
    hasHeadNorm: name === 'qwen3',
    hasInterleavedHeads: false,
    activation: 'silu',
    hasPostNorms: false,
    embeddingScale: 1,
    window: null,
  };
}
